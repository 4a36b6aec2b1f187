"""A file of findings that are known: they are not told again, new ones are."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from ecocompute_cube.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ecocompute_cube.lint.found import Finding

FORMAT: Final = "ecocompute-lint-baseline/1"


def baseline_text(findings: Iterable[Finding]) -> str:
    """The file for these findings. Lines are not in it: code that moves stays known."""
    counted = Counter((each.path, each.code, each.fingerprint()) for each in findings)
    known = [
        {"path": path, "code": code, "fingerprint": mark, "count": count}
        for (path, code, mark), count in sorted(counted.items())
    ]
    document = {"format": FORMAT, "findings": known}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def read_baseline(path: Path) -> Counter[str]:
    """How often each finding is known. Raises UsageError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        known: Counter[str] = Counter()
        for each in document["findings"]:
            known[str(each["fingerprint"])] += int(each["count"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"The baseline {path.name} cannot be read ({error}).",
            "Write it anew with --write_baseline.",
        ) from None
    return known


def unknown(findings: Iterable[Finding], known: Counter[str]) -> list[Finding]:
    """Those that are not in the baseline, or oftener than there."""
    left = Counter(known)
    found = []
    for each in findings:
        mark = each.fingerprint()
        if left[mark] > 0:
            left[mark] -= 1
        else:
            found.append(each)
    return found
