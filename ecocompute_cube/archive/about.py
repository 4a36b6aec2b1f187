"""What a bundle is called, who made it and under which licence: from flags, a file, or the runs."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.archive.words import one_line
from ecocompute_cube.errors import UsageError
from ecocompute_cube.model.bundle import NOBODY, About, Creator, License
from ecocompute_cube.model.manifest import Weights
from ecocompute_cube.report.table import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ecocompute_cube.model.bundle import BundledRun

KEYS: Final = ("title", "description", "creators", "license", "version", "keywords", "date")
_CREATOR_KEYS: Final = ("name", "orcid", "affiliation")
_ORCID: Final = re.compile(r"(?:https?://orcid\.org/)?((?:[0-9]{4}-){3}[0-9]{3}[0-9X])")
_KEYWORDS: Final = ("energy efficiency", "GPU", "large language models", "NVML", "quantization")
_MOST_NAMED: Final = 3  # models, boards or precisions in a title
_MOST_TITLE: Final = 240
_MOST_BYTES: Final = 2**20
_SCOPE: Final = (
    "Energy is that of the GPU board alone, as NVML reports it. It is not wall power, and nothing "
    "here is an MLPerf result."
)


class Wishes(NamedTuple):
    """What somebody asked for; None where they did not."""

    title: str | None = None
    description: str | None = None
    creators: tuple[Creator, ...] = ()
    license: str | None = None
    version: str | None = None
    keywords: tuple[str, ...] | None = None
    date: str | None = None


def read_wishes(path: Path) -> Wishes:
    """The wishes in a TOML file.

    Raises UsageError for a file that is not TOML, or that holds other keys.
    """
    name = one_line(path.name)
    try:
        with path.open("rb") as file:
            data = tomllib.loads(file.read(_MOST_BYTES).decode())
    except OSError as error:
        raise UsageError(
            f"'{name}' cannot be read ({error.strerror}).", "Name a TOML file with --about."
        ) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{name} is not TOML: {one_line(str(error))}.", f"Keys: {', '.join(KEYS)}."
        ) from None
    _refuse_others(data, KEYS, name)
    people = data.get("creators", [])
    if not isinstance(people, list):
        raise UsageError(f"'creators' in {name} is no list.", "Write [[creators]] and their names.")
    words = data.get("keywords")
    if words is not None and not (isinstance(words, list) and all(_is_text(w) for w in words)):
        raise UsageError(f"'keywords' in {name} is no list of words.", 'Write ["one", "two"].')
    return Wishes(
        title=_text(data, "title", name),
        description=_text(data, "description", name),
        creators=tuple(_creator(each, name) for each in people),
        license=_text(data, "license", name),
        version=_text(data, "version", name),
        keywords=None if words is None else tuple(words),
        date=None if data.get("date") is None else str(data["date"]),
    )


def parse_creator(text: str) -> Creator:
    """``Family, Given; ORCID; affiliation``, the last two in any order or left out.

    Raises UsageError for two ORCIDs, or one whose check digit is wrong.
    """
    name, *rest = (part.strip() for part in text.split(";"))
    orcids = [part for part in rest if _ORCID.fullmatch(part)]
    if len(orcids) > 1:
        raise UsageError(f"'{one_line(name)}' has two ORCIDs.", "Give --creator once for each.")
    others = [part for part in rest if part and part not in orcids]
    return _checked_creator(name, next(iter(orcids), None), "; ".join(others) or None)


def about(runs: Sequence[BundledRun], wishes: Wishes) -> About:
    """What to say of a bundle of these runs.

    Random weights and rehearsals are named in the title, whatever title was asked for. Raises
    UsageError for a licence that is not known, a day that is none, or one ORCID for two people.
    """
    _refuse_twins(wishes.creators)
    days = sorted(run.ended_utc[:10] for run in runs)
    told = (one_line(wishes.description, 5000),) if wishes.description else ()
    words = _KEYWORDS if wishes.keywords is None else tuple(map(one_line, wishes.keywords))
    return About(
        title=titled(runs, wishes.title or ""),
        description=(*told, *_description(runs)),
        creators=wishes.creators or (Creator(name=NOBODY),),
        license=_license(wishes.license),
        version=one_line(wishes.version or "1.0.0", 60),
        keywords=words,
        date=_day(wishes.date) if wishes.date else days[-1],
    )


def is_named(told: About) -> bool:
    """Whether somebody stands behind it."""
    return all(each.name != NOBODY for each in told.creators)


# Title and description


def titled(runs: Sequence[BundledRun], title: str) -> str:
    """A title that says what a reader of it alone must know, whatever title it was, or none."""
    title = one_line(title, _MOST_TITLE) or one_line(_default_title(runs), _MOST_TITLE)
    for word, label in _labels(runs):
        if word not in title.lower():
            title += f" ({label})"
    return title


def _default_title(runs: Sequence[BundledRun]) -> str:
    models = _few(model for run in runs for model in run.models)
    if all(run.rehearsal for run in runs):
        return f"{models} decoded without a board: no energy was measured"
    boards = _few(board for run in runs for board in run.boards) or "no board"
    return f"GPU energy per token of {models} on {boards}"


def _labels(runs: Sequence[BundledRun]) -> list[tuple[str, str]]:
    """Each a word to look for in a title, and what to add where it is not."""
    weights = {each for run in runs for each in run.weights}
    labels = []
    if Weights.RANDOM in weights:
        partly = "" if weights == {Weights.RANDOM} else "partly "
        labels.append(("random weights", f"{partly}random weights"))
    if any(run.rehearsal for run in runs):
        every = all(run.rehearsal for run in runs)
        labels.append(("rehearsal", "rehearsal" if every else "with rehearsals"))
    return labels


def _description(runs: Sequence[BundledRun]) -> list[str]:
    first, last = min(run.started_utc for run in runs), max(run.ended_utc for run in runs)
    boards = _few((board for run in runs for board in run.boards), most=100) or "no board"
    told = [
        f"Journals, power traces and the reports computed from them: {counted(len(runs), 'run')} "
        f"of EcoCompute cube, {first[:10]} to {last[:10]}, on {boards}.",
        _SCOPE,
    ]
    if drawn := _few(_models(runs, Weights.RANDOM), most=20):
        told.append(
            f"Random weights: those of {drawn} were drawn from a seed. Their figures are of energy "
            "alone, say nothing of quality, and are not pooled with the models of that shape."
        )
    if expanded := _few(_models(runs, Weights.DEQUANTIZED), most=20):
        told.append(
            f"Dequantized weights: those of {expanded} were 4-bit once already. Their perplexity "
            "is not what quantizing the original costs."
        )
    if rehearsed := sum(run.rehearsal for run in runs):
        told.append(
            f"Rehearsal: in {rehearsed} of {counted(len(runs), 'run')} no energy was measured."
        )
    return told


def _models(runs: Sequence[BundledRun], weights: Weights) -> list[str]:
    return [
        model
        for run in runs
        for model, its in zip(run.models, run.weights, strict=True)
        if its is weights
    ]


def _few(names: Iterable[str], most: int = _MOST_NAMED) -> str:
    distinct = sorted(set(names))
    if len(distinct) > most:
        return f"{', '.join(distinct[:most])} and {len(distinct) - most} more"
    return " and ".join(filter(None, (", ".join(distinct[:-1]), *distinct[-1:])))


# Wishes


def _license(wished: str | None) -> License:
    if wished is None:
        return License.CC_BY
    for known in License:
        if known.lower() == wished.strip().lower():
            return known
    raise UsageError(
        f"'{one_line(wished)}' is no licence for data that is known here.",
        f"Choose one of {', '.join(License)}.",
    )


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise UsageError(f"'{one_line(text)}' is no day.", "Write it as YYYY-MM-DD.") from None


def _creator(data: object, name: str) -> Creator:
    if not isinstance(data, Mapping):
        raise UsageError(f"'creators' in {name} is no list of tables.", "Write [[creators]].")
    _refuse_others(data, _CREATOR_KEYS, name)
    given = {key: _text(data, key, name) for key in _CREATOR_KEYS}
    return _checked_creator(given["name"] or "", given["orcid"], given["affiliation"])


def _checked_creator(name: str, orcid: str | None, affiliation: str | None) -> Creator:
    if not name.strip():
        raise UsageError("A creator has no name.", "Write it as 'Family, Given'.")
    found = _ORCID.fullmatch(orcid.strip()) if orcid else None
    if orcid and (not found or not _check_digit_holds(found[1])):
        raise UsageError(
            f"'{one_line(orcid)}' is no ORCID: it is mistyped.", "Write 0000-0000-0000-0000."
        )
    return Creator(
        name=one_line(name),
        orcid=found[1] if found else None,
        affiliation=one_line(affiliation) if affiliation else None,
    )


def _refuse_twins(creators: Sequence[Creator]) -> None:
    for orcid, times in Counter(each.orcid for each in creators if each.orcid).items():
        if times > 1:
            raise UsageError(f"Two creators have the ORCID {orcid}.", "Each person has their own.")


def _check_digit_holds(orcid: str) -> bool:
    """ISO 7064 MOD 11-2, as ORCID uses it."""
    figures = orcid.replace("-", "")
    total = 0
    for digit in figures[:-1]:
        total = (total + int(digit)) * 2
    return "0123456789X"[(12 - total % 11) % 11] == figures[-1]


def _refuse_others(data: Mapping[str, object], known: Sequence[str], name: str) -> None:
    others = sorted(set(data) - set(known))
    if others:
        raise UsageError(
            f"{name} holds '{one_line(others[0])}', which nothing reads.",
            f"Known keys are {', '.join(known)}.",
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _text(data: Mapping[str, object], key: str, name: str) -> str | None:
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"'{key}' in {name} is no text.", 'Write it in quotes: key = "text".')
    return value
