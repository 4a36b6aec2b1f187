"""What is written for registries and assistants."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from ecocompute_cube import __version__
from ecocompute_cube.cli import _parser
from ecocompute_cube.service.tools import TOOLS

ROOT: Final = Path(__file__).parents[2]
ENTRY: Final[dict[str, Any]] = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
PAGE: Final = (ROOT / "docs" / "assistants.md").read_text(encoding="utf-8")
BLOCKS: Final = re.findall(r"```(json|toml)\n(.*?)```", PAGE, re.DOTALL)
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_entry_is_of_this_version_and_package() -> None:
    (package,) = ENTRY["packages"]
    assert ENTRY["version"] == package["version"] == __version__
    assert package["identifier"] == PROJECT["name"]
    assert package["identifier"] in PROJECT["scripts"]  # what uvx runs unless told otherwise
    assert package["transport"] == {"type": "stdio"}


def test_the_entry_keeps_to_what_the_registry_asks() -> None:
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", ENTRY["name"])
    assert 1 <= len(ENTRY["description"]) <= 100
    assert "server.schema.json" in ENTRY["$schema"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"mcp-name: {ENTRY['name']}" in readme  # how a package on PyPI shows whose it is


def test_the_entry_starts_a_command_that_there_is() -> None:
    arguments = [each["value"] for each in ENTRY["packages"][0]["packageArguments"]]
    assert _parser().parse_args(arguments).command.__name__ == "_mcp"


@pytest.mark.parametrize(("kind", "text"), BLOCKS)
def test_every_configuration_can_be_read_and_starts_the_command(kind: str, text: str) -> None:
    told = json.loads(text) if kind == "json" else tomllib.loads(text)
    (servers,) = told.values()
    server = servers["ecocompute"]
    assert server["command"].endswith("/.venv/bin/ecocompute") and server["args"] == ["mcp"]


def test_the_page_names_every_tool() -> None:
    assert len(BLOCKS) == 3
    assert all(f"`{tool.name}`" in PAGE for tool in TOOLS)
