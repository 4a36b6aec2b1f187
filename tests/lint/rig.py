"""Files to look at, and a run over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ecocompute_cube.lint.found import Finding, Found
from ecocompute_cube.lint.run import Asked, judge, lint
from ecocompute_cube.lint.sources import Kind

EIGHT = (
    "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\n"
    "quant = BitsAndBytesConfig(load_in_8bit=True)\n"
)


def put(folder: Path, **files: str | bytes) -> Path:
    """Write files; ``__`` in a name stands for a dot, ``___`` for a slash."""
    for name, content in files.items():
        path = folder / name.replace("___", "/").replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def looked(*paths: Path, **asked: Any) -> Found:  # noqa: ANN401  # whatever Asked takes
    return lint(Asked(paths, **asked))


def found_in(text: str, kind: Kind = "python", **known: str | None) -> list[Finding]:
    return [*judge(text, "code", kind, **known).findings]


def codes(findings: Found | list[Finding]) -> list[str]:
    every = findings.findings if isinstance(findings, Found) else findings
    return [each.code for each in every]
