"""The tools, as the SDK's own client sees them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.shared.memory import create_connected_server_and_client_session

from ecocompute_cube import __version__
from ecocompute_cube.service import answers
from ecocompute_cube.service.assistant import http_application, tool_server
from ecocompute_cube.service.tools import TOOLS

REPORT: Final = next(Path(__file__).parents[2].glob("data/h200/runs/*-verdict/arms/*/energy.json"))
COMMAND: Final = [sys.executable, "-m", "ecocompute_cube.cli", "mcp"]
SCHEMAS: Final = {tool.name: tool.gives() for tool in TOOLS}


def in_session(asked: Callable[[ClientSession], Awaitable[Any]]) -> Any:  # noqa: ANN401
    """Through the SDK's client and server, without a process."""

    async def run() -> Any:  # noqa: ANN401
        async with create_connected_server_and_client_session(tool_server()) as session:
            return await asked(session)

    return asyncio.run(run())


def called(name: str, **arguments: Any) -> types.CallToolResult:  # noqa: ANN401
    found = in_session(lambda session: session.call_tool(name, arguments))
    assert isinstance(found, types.CallToolResult)
    return found


def said(result: types.CallToolResult) -> str:
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


def test_over_a_real_process_the_answer_is_that_of_the_engine() -> None:
    async def run() -> types.CallToolResult:
        parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            told = await session.initialize()
            assert (told.serverInfo.name, told.serverInfo.version) == ("ecocompute", __version__)
            listed = await session.list_tools()
            assert [tool.name for tool in listed.tools] == list(SCHEMAS)
            asked = {"params_b": 7, "gpu": "rtx 4090", "precision": "INT8"}
            return await session.call_tool("should_i_quantize", asked)

    found = asyncio.run(run())
    expected = answers.estimate({"params_b": 7, "gpu": "rtx 4090", "precision": "INT8"})
    assert found.structuredContent == json.loads(json.dumps(expected.document))
    assert said(found) == expected.as_text()


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT])
def test_a_process_ends_with_its_input_or_a_signal_and_says_nothing(
    number: signal.Signals | None,
) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        if number is None:
            process.stdin.close()
            process.stdin = None
        else:
            process.send_signal(number)
        try:
            process.wait(timeout=20)  # its input stays open after a signal
        finally:
            process.kill()
        out, err = process.communicate()
    assert (process.returncode, out) == (0 if number is None else 130, "")
    assert err.strip() in {"", "stopped"}


def test_every_tool_is_described() -> None:
    listed = in_session(lambda session: session.list_tools()).tools
    for tool in listed:
        assert tool.title and len(tool.description) > 100
        assert tool.annotations.readOnlyHint and not tool.annotations.openWorldHint
        for schema in (tool.inputSchema, tool.outputSchema):
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        assert all(each["description"] for each in tool.inputSchema.get("properties", {}).values())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("should_i_quantize", {"query": "13B on A100, int8, batch 32"}),
        ("should_i_quantize", {"params_b": 0.5, "arch": "hopper", "precision": "NF4"}),
        ("should_i_quantize", {"params_b": 7, "gpu": "h200", "batch": 32.0}),
        ("should_i_quantize", {"params_b": 7, "gpu": "rtx 4090", "form": "published"}),
        ("recommend_config", {"params_b": 7, "gpu": "rtx 4090", "objective": "latency"}),
        ("recommend_config", {"params_b": 700, "gpu": "t4"}),
        ("list_architectures", {}),
        ("check_report", {"report": json.loads(REPORT.read_text(encoding="utf-8"))}),
        ("check_report", {"report": REPORT.read_text(encoding="utf-8")}),
        ("check_report", {"report": {"schema_version": "\x1b[31m"}}),
    ],
)
def test_every_answer_is_as_its_schema_says_and_can_be_read(
    name: str, arguments: dict[str, Any]
) -> None:
    found = called(name, **arguments)
    assert not found.isError, said(found)
    Draft202012Validator(SCHEMAS[name]).validate(found.structuredContent)
    assert said(found).strip() and said(found).replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("name", "arguments", "parameter"),
    [
        ("should_i_quantize", {}, "params_b"),
        ("should_i_quantize", {"params_b": 1e9, "gpu": "h200"}, "params_b"),
        ("should_i_quantize", {"params_b": -1, "gpu": "h200"}, "params_b"),
        ("should_i_quantize", {"params_b": "7", "gpu": "h200"}, "params_b"),
        ("should_i_quantize", {"params_b": 7, "gpu": "rtx 4091"}, "RTX 4090"),
        ("should_i_quantize", {"params_b": 7, "gpu": "h200", "batch": 0}, "batch"),
        ("should_i_quantize", {"params_b": 7, "gpu": "h200", "context": 10**12}, "context"),
        ("should_i_quantize", {"query": 7}, "q"),
        ("should_i_quantize", {"query": "\N{SNOWMAN}" * 100_000}, "q"),
        ("recommend_config", {"params_b": 7, "gpu": "h200", "objective": "cost"}, "price_per_kwh"),
        ("list_architectures", {"arch": "ada"}, "arch"),
        ("check_report", {}, "report"),
        ("check_report", {"report": "{"}, "report"),
        ("check_report", {"report": "[" * 100_000}, "report"),
        ("no_such_tool", {}, "should_i_quantize"),
    ],
)
def test_a_mistake_is_a_result_that_names_its_parameter(
    name: str, arguments: dict[str, Any], parameter: str
) -> None:
    found = called(name, **arguments)
    assert found.isError and parameter in said(found)
    assert "Traceback" not in said(found) and len(said(found)) < 1000


json_values: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # JSON-RPC is UTF-8, which has no halves of surrogates
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(list(SCHEMAS)),
    arguments=st.dictionaries(
        st.sampled_from([*answers.ESTIMATE, *answers.OPTIMIZE, "query", "report"]),
        json_values,
        max_size=5,
    ),
)
def test_no_arguments_are_a_fault_of_ours(name: str, arguments: dict[str, Any]) -> None:
    told = {"params_b": 7, "gpu": "h200"} | arguments if name != "check_report" else arguments
    found = called(name, **told)
    if found.isError:
        assert re.match(r"'?[\w. ]{1,41}'?: ", said(found)), said(found)
    else:
        Draft202012Validator(SCHEMAS[name]).validate(found.structuredContent)


def over_http(body: dict[str, Any], **headers: str) -> httpx.Response:
    async def run() -> httpx.Response:
        app = http_application(["localhost"])
        told = {"accept": "application/json, text/event-stream", "host": "localhost:1"} | headers
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
                return await client.post("/mcp", json=body, headers=told)

    return asyncio.run(run())


CALL: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "should_i_quantize", "arguments": {"query": "7B on 4090"}},
}


def test_over_http_the_answer_is_the_same() -> None:
    found = over_http(CALL)
    assert found.status_code == 200
    expected = answers.estimate({"q": "7B on 4090"}).document
    assert found.json()["result"]["structuredContent"] == json.loads(json.dumps(expected))


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"host": "[::1]:9"}]
)
def test_a_page_from_elsewhere_may_not_ask(headers: dict[str, str]) -> None:
    assert over_http(CALL, **headers).status_code in {403, 421}


def test_http_takes_no_endless_body() -> None:
    found = over_http({**CALL, "more": "x" * 300_000})
    assert found.status_code == 413


def test_http_is_a_process_too() -> None:
    command = [*COMMAND, "--http", "--port", "0"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        assert process.stderr is not None
        address = re.search(r"http://\S+", process.stderr.readline())
        assert address is not None
        headers = {"accept": "application/json, text/event-stream"}
        found = httpx.post(address[0], json=CALL, headers=headers)
        assert found.json()["result"]["isError"] is False
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
