#!/usr/bin/env python3
"""Judges a report of the load generator for scripts/show: one line a check, `ok` or `FAIL` and why, after the figures.

    verdict.py quiet|rollout|kill|forget REPORT [KEY=VALUE…]

KEY=VALUE are facts that the load generator cannot know: killed (a replica's name), handshakes and sessions (of the
upstream that forgot), moves (may-double: a change may be told twice where a stream moves), gateway_errors (answers of 5xx by other pods than the killed one, by nginx's log).
"""

import json
import sys

CALLS = ("legacy_call", "legacy_list", "legacy_streamed_call", "modern_call", "modern_list", "modern_streamed_call")
LISTS = ("legacy_list", "modern_list")


def check(right, name, why):
    print(f"ok   {name}" if right else f"FAIL {name}: {why}")


def figures(report):
    for kind, of in sorted(report["calls"].items()):
        print(
            f"     {kind}: {of['done']} done, {of['failed']} failed, "
            f"p50 {of['p50_ms']} ms, p99 {of['p99_ms']} ms, longest {of['longest_ms']} ms"
        )
    for kind, of in sorted(report["gaps"].items()):
        print(f"     gaps of {kind}: {of['times']}, p50 {of['p50_ms']} ms, longest {of['longest_ms']} ms")
    for what, number in sorted(report["counts"].items()):
        print(f"     {what}: {number}")
    answers = ", ".join(f"{name} {count}" for name, count in sorted(report["replicas"].items()))
    print(f"     answers by replica: {answers}")


def shown(failures):
    some = "; ".join(f"{f['what']} at {f['at_s']} s by {f['replica']}: {f['why'][:160]}" for f in failures[:3])
    return f"{len(failures)} of the first {100}: {some}"


def main():
    proof, path, facts = sys.argv[1], sys.argv[2], dict(fact.split("=", 1) for fact in sys.argv[3:])
    with open(path, encoding="utf-8") as file:
        report = json.loads(file.read().strip().splitlines()[-1])
    count = lambda name: report["counts"].get(name, 0)
    longest = lambda kind: report["gaps"].get(kind, {}).get("longest_ms", 0)
    failures = report["failures"]
    figures(report)

    done = sum(report["calls"].get(kind, {}).get("done", 0) for kind in CALLS)
    idle = [kind for kind in CALLS if not report["calls"].get(kind, {}).get("done")]
    check(not idle, f"every kind of call was made, {done} in {report['seconds']} s", f"none of {', '.join(idle)}")

    if proof == "kill":
        killed = facts["killed"]
        # Without an answer's head its pod is not known: nginx gives 502 for it then, or the connection broke.
        of_it = lambda f: f["replica"] == killed or (f["replica"] == "-" and f["why"].startswith("502"))
        others = [f for f in failures if not of_it(f)]
        check(not others, f"{report['failed']} failures, all of what was in flight on the killed pod", shown(others))
        check(facts.get("gateway_errors") == "0", "no other pod gave a 5xx", f"{facts.get('gateway_errors')} did")
        ended = [f for f in failures if "-32016" in f["why"] or f["why"].startswith("404") or f["what"] == "delete"]
        check(not ended, "no session was lost", shown(ended))
    elif proof == "forget":
        lists = [f for f in failures if f["what"] in LISTS]
        check(not lists, "no list failed", shown(lists))
        check(report["failed"] == 0, f"no call failed, of {done}", shown(failures))
        handshakes, sessions = int(facts["handshakes"]), int(facts["sessions"])
        check(
            sessions <= handshakes <= sessions,
            f"{handshakes} new handshakes for {sessions} sessions that were forgotten",
            "not one each",
        )
    else:
        check(report["failed"] == 0, f"no call failed, of {done}, and nothing else", shown(failures))

    if proof in ("rollout", "kill"):
        check(count("streams_ended") > 0, f"{count('streams_ended')} streams ended", "none did: nothing was shown")
    check(
        count("streams_resumed") == count("streams_ended"),
        f"all {count('streams_ended')} streams that ended were resumed, after {longest('streams')} ms at most",
        f"{count('streams_resumed')} were",
    )
    received = count("changes_received")
    check(
        received > 0 and count("changes_lost") == 0,
        f"no change was lost to a session, of {received} ({count('changes_made_up')} told of as one after a gap)",
        f"{count('changes_lost')} were",
    )
    # A standing call that moves to another pod stands on both for some milliseconds: what a modern upstream tells just then
    # both hear, and nothing in it says that it is the same. To tell it twice is harmless, to guess would lose changes.
    doubled = count("changes_doubled")
    most = count("streams_ended") if facts.get("moves") == "may-double" else 0
    check(
        doubled <= most,
        "no change was doubled for a session" if doubled == 0 else f"{doubled} changes were told twice, while their standing call moved",
        f"{doubled} were",
    )
    progress = count("progress_received")
    check(
        progress > 0 and count("progress_lost") == 0 and count("progress_doubled") == 0,
        f"no progress of a call that ended well was lost or doubled, of {progress}",
        f"{count('progress_lost')} lost, {count('progress_doubled')} doubled",
    )
    check(
        count("listen_lost") == 0 and count("listen_doubled") == 0,
        f"no change was lost or doubled in a subscription, of {count('listen_received')}; "
        f"{count('listens_completed')} were completed and begun again, within {longest('listens')} ms",
        f"{count('listen_lost')} lost, {count('listen_doubled')} doubled",
    )


main()
