"""How long an assistant waits for its first answer: ``ecocompute mcp`` from a cold start.

``python -m benchmarks.mcp [--starts N]``: a process is started, greeted and asked one question, as
an assistant does it; reach 1.5 s in the median on two cores. Beside it, in turn, a bare interpreter
and one that imports the SDK alone, which is most of the time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_REACH_S: Final = 1.5
_SERVER: Final = [sys.executable, "-m", "ecocompute_cube.cli", "mcp"]
_TALK: Final = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "benchmark", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "should_i_quantize", "arguments": {"query": "7B on RTX 4090"}},
    },
)


def first_answer_s() -> float:
    """From the start of the process to the last byte of its answer."""
    start = time.monotonic()
    pipe = subprocess.PIPE
    with subprocess.Popen(_SERVER, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in _TALK:
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()
            if message.get("id"):
                answer = json.loads(server.stdout.readline())
        took_s = time.monotonic() - start
        assert answer["result"]["structuredContent"]["recommendation"]
    assert server.returncode == 0
    return took_s


def _script_s(script: str) -> float:
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", script], check=True)
    return time.monotonic() - start


def main(arguments: Sequence[str]) -> int:
    """Print the figures; status 1 when the median is out of reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=9)
    options = parser.parse_args(arguments)
    taken: dict[str, list[float]] = {"bare interpreter": [], "import of the SDK": [], "answer": []}
    for _ in range(options.starts):  # in turn, so that a busy moment hits them alike
        taken["bare interpreter"].append(_script_s("pass"))
        taken["import of the SDK"].append(_script_s("import mcp.server.lowlevel"))
        taken["answer"].append(first_answer_s())
    for name, each in taken.items():
        sys.stdout.write(f"{name:18} {statistics.median(each):6.3f} s (n = {len(each)})\n")
    return 0 if statistics.median(taken["answer"]) <= _REACH_S else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
