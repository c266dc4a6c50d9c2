"""Reads the rounds of scripts/bench, one JSON object a line, and prints their medians as a table and as ratios.

    report.py [--json] ROUNDS

A round counts only if the server kept its core at least 95 % busy (another process on that core spoils it), and a ratio only
if the CPU time of a call is alike in the rounds: some machines run twice as fast from one minute to the next. Exits
non-zero if an answer was an error or a server has no round that counts.
"""

import json
import statistics
import sys

BUSY = 0.95
# The CPU time of a call in the slowest round to that in the fastest.
ALIKE = 1.15
COLUMNS = "{:<8} {:<9} {:>9} {:>8} {:>8} {:>10} {:>7} {:>7} {:>7}"


def median_of(rounds, key):
    return statistics.median(one[key] for one in rounds)


def summary(era, server, rounds):
    counted = [one for one in rounds if one["cpu_seconds"] >= BUSY * one["seconds"]]
    used = counted or rounds
    costs = [one["cpu_seconds"] / one["calls"] * 1e6 for one in used]
    return {
        "era": era,
        "server": server,
        "calls_per_second": round(median_of([{"v": one["calls"] / one["seconds"]} for one in used], "v")),
        "p50_us": median_of(used, "p50_us"),
        "p99_us": median_of(used, "p99_us"),
        "cpu_us_per_call": round(statistics.median(costs), 2),
        "spread": round(max(costs) / min(costs), 2),
        "core_busy": round(median_of(used, "core_busy"), 3),
        "server_share": round(median_of([{"v": one["cpu_seconds"] / one["seconds"]} for one in used], "v"), 3),
        "rounds": len(rounds),
        "counted": len(counted),
        "errors": sum(one["errors"] for one in rounds),
    }


def main(argv):
    with open(argv[-1], encoding="utf-8") as file:
        rounds = [json.loads(line) for line in file]
    figures = {}
    for one in rounds:
        figures.setdefault((one["era"], one["server"]), []).append(one)
    figures = {key: summary(*key, found) for key, found in figures.items()}
    ratios = []
    for (era, server), ours in figures.items():
        for other in {"plasm": ("nginx", "direct"), "protected": ("plasm",), "run": ("tool",)}.get(server, ()):
            theirs = figures.get((era, other))
            if theirs:
                spread = max(ours["spread"], theirs["spread"])
                doubts = [
                    *([] if ours["counted"] and theirs["counted"] else ["a server did not have its core 95 % busy"]),
                    *([] if spread <= ALIKE else [f"the CPU time of a call differs by {spread} from round to round"]),
                ]
                ratios.append(
                    {
                        "era": era,
                        "of": f"{server}/{other}",
                        "calls": round(ours["calls_per_second"] / theirs["calls_per_second"], 3),
                        "cpu": round(theirs["cpu_us_per_call"] / ours["cpu_us_per_call"], 3),
                        "counts": not doubts,
                        "doubts": doubts,
                    }
                )
    if "--json" in argv:
        print(json.dumps({"figures": list(figures.values()), "ratios": ratios}, indent=2))
    else:
        print(COLUMNS.format("era", "server", "calls/s", "p50 us", "p99 us", "CPU us/call", "core", "server", "counted"))
        for one in figures.values():
            print(
                COLUMNS.format(
                    one["era"],
                    one["server"],
                    one["calls_per_second"],
                    one["p50_us"],
                    one["p99_us"],
                    one["cpu_us_per_call"],
                    f"{one['core_busy']:.0%}",
                    f"{one['server_share']:.0%}",
                    f"{one['counted']}/{one['rounds']}",
                )
            )
        for one in ratios:
            doubt = "" if one["counts"] else f"  (does not count: {'; '.join(one['doubts'])})"
            print(f"ratio {one['era']} {one['of']}: {one['calls']} by calls a second, {one['cpu']} by CPU{doubt}")
    bad = [one for one in figures.values() if one["errors"] or not one["counted"]]
    for one in bad:
        why = f"{one['errors']} errors" if one["errors"] else "it never had its core 95 % busy"
        print(f"FAIL {one['era']} {one['server']}: {why}", file=sys.stderr)
    return 1 if bad else 0


sys.exit(main(sys.argv[1:]))
