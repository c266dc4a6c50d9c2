"""Two gateways with a Redis, upstreams of both eras and one that is away, before a real Prometheus: load of all kinds and every
trouble that an alert speaks of. Then each panel's query and each alert's must have had data in that time.

    show.py GATEWAY FIXTURE FOLDER SECONDS [PICTURE]

One line a check, `ok` or `FAIL`. With PICTURE, the dashboards are drawn from what Prometheus has.
"""

import http.client
import json
import math
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
GATEWAY, FIXTURE, FOLDER, SECONDS = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
PICTURE = sys.argv[5] if len(sys.argv) > 5 else None
FOLDER.mkdir(parents=True, exist_ok=True)
STARTED = []


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(name, args, **more):
    log = open(FOLDER / f"{name}.log", "w")
    process = subprocess.Popen(args, stdin=subprocess.DEVNULL, **{"stdout": log, "stderr": log, **more})
    STARTED.append(process)
    return process


def until(what, is_so, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if is_so():
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.05)
    raise SystemExit(f"FAIL never so: {what}; see {FOLDER}")


def get(url, data=None):
    with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=10) as answer:
        return answer.read().decode()


def fixture(name, *args):
    process = subprocess.Popen([FIXTURE, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    STARTED.append(process)
    return process.stdout.readline().strip().removeprefix("listening ")


# ---------------------------------------------------------------- what is started

def key(tenant):
    minted = subprocess.run([GATEWAY, "token", "mint", tenant], capture_output=True, text=True, check=True).stdout.strip()
    said = subprocess.run([GATEWAY, "token", "hash"], input=minted, capture_output=True, text=True, check=True)
    return minted, re.search(r"sha256:[0-9a-f]{64}", said.stdout + said.stderr).group()


KEYS = {tenant: key(tenant) for tenant in ("acme", "globex")}


class Pod:
    def __init__(self, name, config, **more):
        self.name, self.port, self.admin = name, free_port(), f"127.0.0.1:{free_port()}"
        self.file = FOLDER / f"{name}.yaml"
        self.config = {**config, "listen": f"127.0.0.1:{self.port}", "admin_listen": self.admin, "public_url": f"http://127.0.0.1:{self.port}"}
        self.file.write_text(json.dumps(self.config))
        errors = open(FOLDER / f"{name}.errors", "w")
        self.process = start(name, [GATEWAY, "serve", "--config", str(self.file)], stderr=errors, **more)
        until(f"{name} is ready", lambda: get(f"http://{self.admin}/readyz").startswith("ready"))

    def post(self, body, headers=(), path="/mcp", token=KEYS["acme"][0], timeout=30):
        """The status, the session and the text of the answer; 0 where there is none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        all_headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if token:
            all_headers["authorization"] = f"Bearer {token}"
        try:
            connection.request("POST", path, json.dumps(body) if isinstance(body, dict) else body, {**all_headers, **dict(headers)})
            answer = connection.getresponse()
            return answer.status, answer.headers.get("mcp-session-id"), answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, None, ""
        finally:
            connection.close()

    def modern(self, method, params=None, **more):
        params = {**(params or {}), "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "show", "version": "1"},
        }}
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        named = params.get("name") or params.get("uri")
        if named and method in ("tools/call", "resources/read", "prompts/get"):
            headers["mcp-name"] = named
        return self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers, **more)

    def call(self, tool, arguments=None, **more):
        return self.modern("tools/call", {"name": tool, "arguments": arguments or {}}, **more)

    def legacy(self):
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "show", "version": "1"}}
        _, session, _ = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, token=KEYS["globex"][0])
        headers = {"mcp-session-id": session or "", "mcp-protocol-version": "2025-11-25"}

        def ask(method, params=None):
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
            return self.post(message, headers, token=KEYS["globex"][0])
        return headers, ask


def in_background(what):
    thread = threading.Thread(target=what, daemon=True)
    thread.start()
    return thread


# ---------------------------------------------------------------- the load, and the troubles

def load(pod, end):
    n = 0
    while time.monotonic() < end:
        n += 1
        time.sleep(0.02)
        pod.call("old__echo", {"text": "x" * (n % 2000), "password": "hunter2"})
        pod.call("new__echo", {"n": n}, token=KEYS["globex"][0])
        pod.call("gone__anything")
        if n % 5 == 0:
            pod.modern("tools/list")
            pod.modern("resources/read", {"uri": "test://static-text"})
            pod.call("old__no_such_tool")
            pod.post({"jsonrpc": "2.0"})
            pod.post("{", path="/nowhere")
        if n % 10 == 0:
            headers, ask = pod.legacy()
            ask("tools/list")
            ask("tools/call", {"name": "old__echo", "arguments": {}})
            connection = http.client.HTTPConnection("127.0.0.1", pod.port, timeout=5)
            connection.request("DELETE", "/mcp", headers={**headers, "authorization": f"Bearer {KEYS['globex'][0]}"})
            connection.getresponse().read()
            connection.close()


def stream(pod, seconds):
    headers, _ = pod.legacy()
    connection = http.client.HTTPConnection("127.0.0.1", pod.port, timeout=seconds)
    try:
        connection.request("GET", "/mcp", headers={**headers, "accept": "text/event-stream", "authorization": f"Bearer {KEYS['globex'][0]}"})
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        pass


def trouble(one, two, redis):
    # Nobody knows these tokens: before the load, for they are to outnumber it.
    for n in range(800):
        one.post({}, token=None if n % 2 else "plasm_acme_nobodys")
    # One call in a few takes longer than ten seconds, and more at once than the pod has room for.
    slow = [in_background(lambda: two.call("old__slow_echo", {"ms": 11_000})) for _ in range(280)]
    end = time.monotonic() + SECONDS
    loads = [in_background(lambda pod=pod: load(pod, end)) for pod in (one, two)]
    in_background(lambda: stream(two, SECONDS + 10))
    two.file.write_text(json.dumps({**two.config, "no_such_key": 1}))
    time.sleep(SECONDS / 3)
    redis.send_signal(signal.SIGSTOP)
    away = time.monotonic() + 8
    while time.monotonic() < away:
        for pod in (one, two):
            # Each is to begin a session, which cannot be kept.
            in_background(pod.legacy)
        time.sleep(0.05)
    redis.send_signal(signal.SIGCONT)
    for thread in loads + slow:
        thread.join()
    # A call that does not end, once the limit admits one, and a pod that is to.
    time.sleep(2)
    in_background(lambda: one.call("old__never", timeout=60))
    time.sleep(1)
    get(f"http://{one.admin}/drain", data=b"")
    time.sleep(15)


# ---------------------------------------------------------------- what is asked of Prometheus

def panels():
    for file in sorted((ROOT / "deploy/grafana").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", []):
                yield file.stem, panel["title"], target["expr"], target.get("legendFormat") or ""


def alerts():
    asked = json.loads(get(f"{PROMETHEUS}/api/v1/rules"))["data"]["groups"]
    return [(rule["name"], rule["query"]) for group in asked for rule in group["rules"]]


def filled(expression):
    for name, value in (("$__rate_interval", "1m"), ("$__range", "5m"), ("$instance", ".*")):
        expression = expression.replace(name, value)
    return expression


def data(expression, begun, ended):
    """The series that the expression has over the whole run, without points that are no numbers."""
    query = urllib.parse.urlencode({"query": filled(expression), "start": begun, "end": ended, "step": 1})
    result = json.loads(get(f"{PROMETHEUS}/api/v1/query_range?{query}"))["data"]["result"]
    series = [(one["metric"], [(at, float(value)) for at, value in one["values"] if not math.isnan(float(value))]) for one in result]
    return [(labels, points) for labels, points in series if points]


def draw(begun, ended):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    drawn = {}
    for board, title, expression, legend in panels():
        drawn.setdefault((board, title), []).extend((legend, labels, points) for labels, points in data(expression, begun, ended))
    columns = 4
    rows = -(-len(drawn) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(columns * 5, rows * 2.7))
    for axis, ((_, title), lines) in zip(axes.flat, drawn.items()):
        axis.set_title(title, fontsize=8)
        for legend, labels, points in lines[:12]:
            name = re.sub(r"\{\{(\w+)\}\}", lambda m: labels.get(m.group(1), ""), legend) or ",".join(labels.values())
            axis.plot([at - begun for at, _ in points], [value for _, value in points], label=name[:30], linewidth=1)
        axis.tick_params(labelsize=6)
        axis.legend(fontsize=5, loc="upper left")
        axis.set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=80)


def main():
    global PROMETHEUS
    port = free_port()
    redis = start("redis", ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(FOLDER), "--maxmemory-policy", "noeviction"])
    secret = FOLDER / "sealing"
    secret.write_text("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
    config = {
        "store": {"redis_url": f"redis://127.0.0.1:{port}"},
        "sealing": {"keys": [{"file": str(secret)}]},
        "auth": {"api_keys": {tenant: {"hash": hashed, "tenant": tenant} for tenant, (_, hashed) in KEYS.items()}},
        "rates": {"unauthenticated": "1000/s burst 2000", "tenant": {"call": "25/s burst 400"}},
        "upstreams": {
            "old": {"url": fixture("old", "--http", "127.0.0.1:0", "--era", "legacy", "--no-seen")},
            "new": {"url": fixture("new", "--http", "127.0.0.1:0", "--era", "modern", "--no-seen")},
            "gone": {"url": f"http://127.0.0.1:{free_port()}/mcp"},
        },
        "limits": {"concurrent_calls": 180},
        "drain": {"propagation": "1s", "budget": "14s"},
        # Nobody is there.
        "telemetry": {"traces": "otlp", "endpoint": f"http://127.0.0.1:{free_port()}", "queue": 16},
        "audit": {"to": "stdout", "arguments": ["*"]},
    }
    until("redis answers", lambda: socket.create_connection(("127.0.0.1", port), 1).close() or True)
    # The audit of the one is read, that of the other is not.
    one = Pod("one", config)
    two = Pod("two", config, stdout=subprocess.PIPE)
    at = free_port()
    PROMETHEUS = f"http://127.0.0.1:{at}"
    scraped = {"targets": [one.admin, two.admin]}
    (FOLDER / "prometheus.yml").write_text(json.dumps({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ROOT / "deploy/prometheus/rules.yaml")],
        "scrape_configs": [{"job_name": "plasm-mcp", "static_configs": [scraped]}],
    }))
    start("prometheus", ["prometheus", f"--config.file={FOLDER}/prometheus.yml", f"--storage.tsdb.path={FOLDER}/tsdb", f"--web.listen-address=127.0.0.1:{at}"])
    until("both pods are scraped", lambda: sum(one["health"] == "up" for one in json.loads(get(f"{PROMETHEUS}/api/v1/targets"))["data"]["activeTargets"]) == 2)
    begun = time.time()
    trouble(one, two, redis)
    # Counters are read once more, and rules evaluated.
    time.sleep(3)
    ended = time.time()
    failed = 0

    def check(is_so, text):
        nonlocal failed
        failed += not is_so
        print("ok  " if is_so else "FAIL", text, flush=True)

    for board, title, expression, _ in panels():
        check(data(expression, begun, ended), f"{board}: {title}: {expression[:70]}")
    for name, expression in alerts():
        check(data(expression, begun, ended), f"rule {name}")
    text = (FOLDER / "one.log").read_text() + "".join((FOLDER / f"{name}.errors").read_text() for name in ("one", "two"))
    secrets = [KEYS["acme"][0], KEYS["globex"][0], "hunter2", "MDEyMzQ1"]
    check(not any(secret in text for secret in secrets), "no key and no password stands in the logs or the audit")
    lines = [json.loads(line) for line in (FOLDER / "one.log").read_text().splitlines()]
    outcomes = {line["outcome"] for line in lines}
    check({"ok", "unauthorized", "rate_limited", "upstream_unreachable", "unknown_tool"} <= outcomes, f"the audit has calls and refusals: {sorted(outcomes)}")
    if PICTURE:
        draw(begun, ended)
        print("drawn:", PICTURE, flush=True)
    return failed


try:
    FAILED = main()
finally:
    for process in reversed(STARTED):
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
sys.exit(1 if FAILED else 0)
