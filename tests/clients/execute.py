"""The official Python client at the execute surface of several pods behind a balancer, with the catalog of tests/execute.

    execute.py --era modern|legacy --http URL --log FILE [--log FILE…]
    execute.py --era modern|legacy --http URL --shop URL --pod URL --kill COMMAND

Prints `ok NAME` or `FAIL NAME: why` a check; exits non-zero if one failed. --log: where the pods' logs are. --kill: what kills
the pod at --pod, which then has a write under way at the API at --shop.
"""

import json
import sys
import warnings

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

warnings.simplefilter("ignore")

LONGEST = 40.0  # seconds that a check may take
SEEDS = [{"api": "shop", "entity": "Item"}, {"api": "shop", "entity": "Order"}]
LIST = "Item | filter(price < 90)"
NAMES = ("discover_capabilities", "plasm_context", "plasm", "plasm_run", "plasm_read_run_artifact")


class Connection:
    """A client and the pods that answered it, in order."""

    def __init__(self, url, era, name, sessions):
        self.url, self.era, self.name, self.sessions, self.pods = url, era, name, sessions, []

    async def _answered(self, response):
        self.pods.append(response.headers.get("plasm-replica"))
        if not self.sessions:
            response.headers.pop("mcp-session-id", None)

    async def _asked(self, request):
        assert self.sessions or "mcp-session-id" not in request.headers

    async def __aenter__(self):
        hooks = {"request": [self._asked], "response": [self._answered]}
        self.http = httpx2.AsyncClient(timeout=LONGEST, event_hooks=hooks)
        self.client = Client(
            streamable_http_client(self.url, http_client=self.http),
            mode="legacy" if self.era == "legacy" else "2026-07-28",
            client_info=types.Implementation(name=self.name, version="1.2.3"),
        )
        await self.client.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self.client.__aexit__(*error)
        await self.http.aclose()

    async def call(self, tool, **arguments):
        return await self.client.call_tool(tool, arguments)

    async def elsewhere(self, pods, tool, **arguments):
        """The result, by another pod than these."""
        for _ in range(30):
            result = await self.call(tool, **arguments)
            assert not result.is_error, result.content
            if self.pods[-1] not in pods:
                return result.structured_content, result, self.pods[-1]
        raise AssertionError(f"{tool}: only {pods} answer")


async def opened(connection, intent):
    context, result, pod = await connection.elsewhere((), "plasm_context", intent=intent, seeds=SEEDS)
    handle = context["logical_session_ref"]
    assert result.content[0].text.split("\n")[0] == handle
    return handle, pod


async def ran(connection, intent):
    """What a run came to: opened on one pod, planned on another, run on a third; and which."""
    handle, opener = await opened(connection, intent)
    plan, _, planner = await connection.elsewhere((opener,), "plasm", logical_session_ref=handle, program=LIST)
    facts, result, runner = await connection.elsewhere(
        (opener, planner), "plasm_run", logical_session_ref=handle, run_ref=plan["run_ref"]
    )
    root = facts["roots"][0]
    assert root["rows"] == 90 and root["coverage"] == "complete", root
    assert len({opener, planner, runner}) == 3, "three pods"
    return handle, root, result, runner


async def is_offered_and_found(at):
    async with at("official-python-client") as connection:
        tools = {tool.name: tool for tool in (await connection.client.list_tools()).tools}
        for name in NAMES:
            assert tools[name].output_schema and tools[name].annotations, name
        found = await connection.call("discover_capabilities", query="the price of an item")
        assert found.structured_content["entities"][0]["entity"] == "Item", found


async def is_opened_on_one_pod_planned_on_another_and_run_on_a_third(at):
    async with at("official-python-client") as connection:
        handle, root, result, runner = await ran(connection, "python")
        page, _, _ = await connection.elsewhere(
            (runner,), "plasm_read_run_artifact", logical_session_ref=handle, artifact_uri=root["artifact_uri"], limit=90
        )
        assert page["total"] == 90 and page["rows"][89][0] == "i89", page
        read = await connection.client.read_resource(root["artifact_uri"])
        assert len(json.loads(read.contents[0].text)["rows"]) == 90


async def goes_on_by_its_handle_alone_over_another_connection(at):
    async with at("official-python-client") as first:
        handle, root, _, _ = await ran(first, "python again")
    async with at("official-python-client", sessions=False) as second:
        result = await second.call("plasm", logical_session_ref=handle, program=LIST, mode="auto")
        assert result.structured_content["roots"][0]["rows"] == 90, result
        read = await second.client.read_resource(root["artifact_uri"])
        assert len(json.loads(read.contents[0].text)["rows"]) == 90


async def needs_no_session_at_all(at):
    async with at("official-python-client", sessions=False) as connection:
        await ran(connection, "python, no session")


async def names_the_way_that_its_client_reads_by(at):
    modern = at.era == "modern"
    for name, tool, resource in (("cursor-vscode", modern, True), ("claude-ai", True, modern)):
        async with at(name) as connection:
            handle, root, result, _ = await ran(connection, f"python as {name}")
            said, uri = result.content[0].text, root["artifact_uri"]
            assert ("plasm_read_run_artifact" in said) == tool, said
            assert ("resource plasm://" in said or "as a resource" in said) == resource, said
            if resource:
                read = await connection.client.read_resource(uri)
                assert len(json.loads(read.contents[0].text)["rows"]) == 90
            if tool:
                page = await connection.call("plasm_read_run_artifact", logical_session_ref=handle, artifact_uri=uri)
                assert page.structured_content["total"] == 90
        if modern:
            continue
        wanted = "ToolFallback" if name == "claude-ai" else "ResourcesRead"
        lines = [line for log in at.logs for line in open(log) if "resolved MCP artifact access mode" in line]
        assert any(name in line and wanted in line and "1.2.3" in line for line in lines), lines


async def is_told_of_what_it_does_not_have(at):
    async with at("official-python-client") as connection:
        none = "l_" + "a" * 26
        result = await connection.call("plasm", logical_session_ref=none, program=LIST)
        assert result.is_error and result.structured_content["error"]["code"] == "session_unknown", result
        try:
            await connection.client.read_resource(f"plasm://session/{none}/r/1")
        except MCPError:
            return
        raise AssertionError("it read what is not there")


async def hears_how_far_a_run_is(at):
    async with at("official-python-client") as connection:
        handle, _ = await opened(connection, "python, progress")
        seen = []

        async def on_progress(progress, total, message):
            seen.append(progress)

        arguments = {"logical_session_ref": handle, "program": "Item"}
        result = await connection.client.call_tool("plasm_run", arguments, progress_callback=on_progress)
        assert result.structured_content["roots"][0]["rows"] == 300, result
        assert seen and seen == sorted(seen), seen


CHECKS = (
    is_offered_and_found,
    is_opened_on_one_pod_planned_on_another_and_run_on_a_third,
    goes_on_by_its_handle_alone_over_another_connection,
    needs_no_session_at_all,
    names_the_way_that_its_client_reads_by,
    is_told_of_what_it_does_not_have,
    hears_how_far_a_run_is,
)


async def leaves_an_unknown_outcome_and_one_write_where_a_pod_is_killed(at):
    program = 'Order.create(item = Item("i1"), note = "slow")'

    async def orders():
        async with httpx2.AsyncClient() as http:
            all_of_them = (await http.get(f"{at.shop}/_orders")).json()["orders"]
        return len([order for order in all_of_them if order["note"] == "slow"])

    async with at("official-python-client") as connection:
        handle, opener = await opened(connection, "python, a killed pod")
        plan, _, _ = await connection.elsewhere((opener,), "plasm", logical_session_ref=handle, program=program)
        ask = {"logical_session_ref": handle, "run_ref": plan["run_ref"]}

        async def is_lost():
            try:
                async with Connection(at.pod, at.era, "official-python-client", True) as doomed:
                    result = await doomed.call("plasm_run", **ask)
            except Exception:
                return
            raise AssertionError(f"the killed pod answered: {result}")

        async with anyio.create_task_group() as group:
            group.start_soon(is_lost)
            while await orders() == 0:
                await anyio.sleep(0.02)
            await anyio.run_process(at.kill)
        codes = []
        while not codes or codes[-1] == "already_running":
            await anyio.sleep(0.2)
            codes.append((await connection.call("plasm_run", **ask)).structured_content["error"]["code"])
        for _ in range(6):
            codes.append((await connection.call("plasm_run", **ask)).structured_content["error"]["code"])
        assert codes[0] == "already_running" and codes[-7:] == ["outcome_unknown"] * 7, codes
        assert await orders() == 1, "it was written again"


class At:
    def __init__(self, argv):
        flags = ("--era", "--http", "--shop", "--pod", "--kill")
        given = {flag: value for flag, value in zip(argv, argv[1:]) if flag in flags}
        self.era, self.url = given.get("--era", "modern"), given["--http"]
        self.shop, self.pod, self.kill = (given.get(flag) for flag in ("--shop", "--pod", "--kill"))
        self.checks = (leaves_an_unknown_outcome_and_one_write_where_a_pod_is_killed,) if self.kill else CHECKS
        self.logs = [value for flag, value in zip(argv, argv[1:]) if flag == "--log"]

    def __call__(self, name, sessions=True):
        return Connection(self.url, self.era, name, sessions)


def reason(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


async def main(argv):
    at, failed = At(argv), 0
    for check in at.checks:
        name = f"python {at.era}: {check.__name__.replace('_', ' ')}"
        try:
            with anyio.fail_after(LONGEST):
                await check(at)
            print(f"ok {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAIL {name}: {reason(error)}", flush=True)
    return 1 if failed else 0


sys.exit(anyio.run(main, sys.argv[1:]))
