"""Every rule finds what it should in real-looking files, and nothing in others like them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from ecocompute_cube.lint.found import Finding
from ecocompute_cube.lint.rules import RULES
from ecocompute_cube.lint.run import judge
from ecocompute_cube.lint.sources import kind_of, telling

SAMPLES: Final = Path(__file__).parent / "samples"
_HEAD: Final = re.compile(r"^=== (bad|good) (\S+)$", re.MULTILINE)
_LEAST: Final = 5


class Sample(NamedTuple):
    code: str
    good: bool
    name: str
    text: str


def samples() -> list[Sample]:
    found = []
    for path in sorted(SAMPLES.glob("*.txt")):
        parts = _HEAD.split(path.read_text(encoding="utf-8"))
        for n in range(1, len(parts), 3):
            text = parts[n + 2].lstrip("\n")
            found.append(Sample(path.stem, parts[n] == "good", parts[n + 1], text))
    return found


def found_in(sample: Sample) -> list[Finding]:
    kind = kind_of(Path(sample.name))
    assert kind is not None
    return [*judge(sample.text, sample.name, kind).findings]


def named(sample: Sample) -> str:
    return f"{sample.code}-{'good' if sample.good else 'bad'}-{sample.name}"


@pytest.mark.parametrize("sample", [s for s in samples() if not s.good], ids=named)
def test_waste_is_found_where_it_is(sample: Sample) -> None:
    found = [each for each in found_in(sample) if each.code == sample.code]
    assert len(found) == 1
    assert found[0].message and found[0].fix
    marked = [n for n, line in enumerate(sample.text.splitlines(), 1) if line.endswith("# <-")]
    if marked:
        assert found[0].place.within(marked[0])


@pytest.mark.parametrize("sample", [s for s in samples() if s.good], ids=named)
def test_nothing_is_found_in_what_is_no_waste_or_not_known(sample: Sample) -> None:
    assert [each for each in found_in(sample) if each.code == sample.code] == []


@pytest.mark.parametrize("sample", [s for s in samples() if not s.good], ids=named)
def test_a_look_at_the_bytes_passes_no_file_with_waste(sample: Sample) -> None:
    kind = kind_of(Path(sample.name))
    assert kind is not None and telling(sample.text.encode(), kind)


def test_every_rule_has_five_samples_of_either_kind() -> None:
    counted = Counter((each.code, each.good) for each in samples())
    rules = [rule.code for rule in RULES if rule.check is not None]
    few = [(code, good) for code in rules for good in (True, False) if counted[code, good] < _LEAST]
    assert few == []
