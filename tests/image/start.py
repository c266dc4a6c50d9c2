"""Starts an image that check.py made, as its Dockerfile says and as a container would be: in namespaces of its own, on a
read-only root, as its user. One line a check.

    start.py FOLDER CLIENT gateway|stdio

FOLDER has start.json, CLIENT is a plasm-mcp outside that calls the gateway.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "box"))

import box
from check import ROOT, STDIO, verdict

URL = "http://127.0.0.1:8080/mcp"
CONFIG = "/etc/plasm-mcp/config.yaml"


def example():
    """The configuration that stands in the head of the stdio Dockerfile."""
    head = re.search(r"^# upstreams:\n(?:#  .*\n)+", (ROOT / STDIO).read_text(), re.M)[0]
    return re.sub(r"^# ?", "", head, flags=re.M)


def privileges(pid, user):
    """What a process has that it should not."""
    status = dict(re.findall(r"^(\w+):\t(.*)$", Path(f"/proc/{pid}/status").read_text(), re.M))
    if box.IS_ROOT:
        for key, wanted in zip(("Uid", "Gid"), user.split(":")):
            yield set(status[key].split()) != {wanted} and f"{key} {status[key]}"
        yield status["Groups"].strip() and f"groups {status['Groups']}"
        yield int(status["CapPrm"], 16) and f"capabilities {status['CapPrm']}"
    yield status["NoNewPrivs"] != "1" and "it may gain rights"
    mounts = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    yield [m for m in mounts if m[4] == "/"][-1][5].split(",")[0] != "ro" and "its root is writable"


def main(folder, client, kind):
    image = json.loads((Path(folder) / "start.json").read_text())
    root = Path(image["root"])
    (root / CONFIG.lstrip("/")).parent.mkdir()
    (root / CONFIG.lstrip("/")).write_text(example())
    box.loopback()
    box.furnish(root, tmp=kind == "stdio")
    box.seal(root)

    def inside(*command):
        return box.inside(root, image["user"], image["environment"], command)

    def run(*command):
        return subprocess.run(inside(*command), capture_output=True, text=True)

    def healthy():
        return run(*image["health"]).returncode == 0

    verdict(f"{kind}: HEALTHCHECK gives 1 before it is started", run(*image["health"]).returncode != 1 and run(*image["health"]).stderr)
    checked = run(*image["entrypoint"], "config", "check", CONFIG)
    warned = "deploy/stdio.Dockerfile" in checked.stderr
    verdict(
        f"{kind}: config check {'warns of' if kind == 'gateway' else 'finds'} the program of a stdio server",
        (checked.returncode != 0 or warned != (kind == "gateway")) and f"{checked.returncode}: {checked.stdout}{checked.stderr}",
    )
    catalogs = run(*image["entrypoint"], "catalog", "check", "--strict", "/usr/local/share/plasm-mcp/catalogs")
    verdict(f"{kind}: the catalogs that it brings are clean", (catalogs.returncode or "github: ok" not in catalogs.stdout) and f"{catalogs}")

    flags = ["--demo"] if kind == "gateway" else ["--config", CONFIG]
    log = Path(folder, "log").open("w+")
    gateway = subprocess.Popen(inside(*image["entrypoint"], *image["command"], *flags), stdout=log, stderr=log)
    said = lambda: Path(folder, "log").read_text()[-2000:]
    if not verdict(f"{kind}: starts, and HEALTHCHECK gives 0", not box.soon(healthy) and said()):
        return
    verdict(f"{kind}: {'' if box.IS_ROOT else '(as you, for this is not root) '}runs as {image['user']} without rights, on a read-only root", *privileges(gateway.pid, image["user"]))
    tool = ["add", "numbers=[1, 2]"] if kind == "gateway" else ["read_graph"]
    called = subprocess.run([client, "call", URL, *tool], capture_output=True, text=True)
    expected = "3" if kind == "gateway" else "entities"
    verdict(f"{kind}: answers a call", (called.returncode != 0 or expected not in called.stdout) and f"{called}; {said()}")
    code = box.end(gateway)
    verdict(f"{kind}: ends with 0 at SIGTERM", code != 0 and f"{code}: {said()}")
    verdict(f"{kind}: HEALTHCHECK gives 1 after that", run(*image["health"]).returncode != 1 and "it does not")


if __name__ == "__main__":
    box.enter("net", "pid")
    main(*sys.argv[1:])
