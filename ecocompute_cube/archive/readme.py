"""README.md of a bundle: what it is, its figures, how to check and cite it, what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.analysis.documents import at, number_at
from ecocompute_cube.archive.about import is_named
from ecocompute_cube.archive.describe import NOT_MLPERF
from ecocompute_cube.archive.words import as_markdown as md
from ecocompute_cube.model.bundle import Layout
from ecocompute_cube.model.plan import BASELINE
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ecocompute_cube.archive.computed import Energy
    from ecocompute_cube.archive.describe import Contents
    from ecocompute_cube.model.bundle import BundledRun, Missing

_MOST_MISSING: Final = 50  # named on the page; manifest.json has all

_FILES: Final = (
    ("runs/RUN/journal.jsonl", "what happened, one fact a line, each bound to the line before it"),
    ("runs/RUN/traces/", "power, temperature and clocks over time, one gzipped CSV a visit"),
    ("runs/RUN/arms/ARM/energy.json", "one arm's report, computed from the two"),
    ("report/", "the same for people, and `results.csv` with one line an arm"),
    ("schemas/", "JSON Schemas of every document"),
    ("environment.json", "boards, drivers, hosts and packages of every session"),
)
_ABOUT: Final = (
    ("manifest.json", "this list for programs: every file, its size, its SHA-256"),
    ("SHA256SUMS", "the same for `sha256sum -c`"),
    ("CITATION.cff, .zenodo.json", "how to cite it; what Zenodo reads"),
    ("croissant.json, ro-crate-metadata.json", "Croissant 1.0 and RO-Crate 1.1 descriptions"),
)


def readme(contents: Contents) -> bytes:
    """The page, in Markdown. Whatever comes from a journal is escaped."""
    return ("\n".join(_lines(contents)) + "\n").encode()


def _lines(contents: Contents) -> Iterator[str]:
    told = contents.about
    yield f"# {md(told.title)}\n"
    if contents.layout is Layout.MLCOMMONS:
        yield f"**MLCommons-style layout: {NOT_MLPERF}.** Result not verified by MLCommons"
        yield "Association. There are no LoadGen logs and there is no wall power in this tree.\n"
    for part in told.description:
        yield f"{md(part)}\n"
    yield from _figures(contents)
    yield "## What is here\n"
    yield "| path | what it is |\n|---|---|"
    yield from (f"| `{contents.data}{path}` | {what} |" for path, what in _FILES)
    if contents.layout is Layout.MLCOMMONS:
        yield "| `open/` | the tree of MLPerf inference submissions, with energy.json in it |"
    yield from (f"| `{path}` | {what} |" for path, what in _ABOUT)
    yield from _runs(contents)
    yield from _missing(contents.missing)
    yield from _check(contents)
    yield from _cite(contents)


def _figures(contents: Contents) -> Iterator[str]:
    yield "## Figures\n"
    yield f"Energy of the board alone ({NOT_MLPERF}), with intervals at the confidence of each"
    yield "run's plan. A dash is an absent value: the energy.json says why.\n"
    yield "| run | model | arm | mJ/token | interval | versus FP16 | interval |"
    yield "|---|---|---|---|---|---|---|"
    yield from map(_row, contents.energies)
    yield ""


def _row(energy: Energy) -> str:
    document = energy.document
    precision, runtime = at(document, "workload.precision"), at(document, "workload.runtime")
    change = _number(energy, "results.vs_fp16_energy_pct", signed, " %")
    cells = (
        energy.run,
        md(str(at(document, "workload.model_name"))),
        md(f"{precision} {runtime}"),
        _number(energy, "results.energy_per_token_mj", _whole),
        _interval(energy, "results.energy_per_token_interval_mj", _whole),
        "baseline" if precision == BASELINE and change != "–" else change,
        _interval(energy, "results.vs_fp16.interval_pct", signed),
    )
    return f"| {' | '.join(cells)} |"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _number(energy: Energy, place: str, form: Callable[[float], str], unit: str = "") -> str:
    value = number_at(energy.document, place)
    return "–" if value is None else f"{form(value)}{unit}"


def _interval(energy: Energy, place: str, form: Callable[[float], str]) -> str:
    ends = [number_at(energy.document, f"{place}.{end}") for end in ("low", "high")]
    low, high = ends
    return "–" if low is None or high is None else f"{form(low)} to {form(high)}"


def _runs(contents: Contents) -> Iterator[str]:
    yield "\n## Runs\n"
    yield "| run | from | to | board | plan | models | signed |\n|---|---|---|---|---|---|---|"
    yield from (f"| {' | '.join(_about_run(run))} |" for run in contents.runs)


def _about_run(run: BundledRun) -> tuple[str, ...]:
    models = (
        md(model if f"{weights}" in model else f"{model} ({weights} weights)")
        for model, weights in zip(run.models, run.weights, strict=True)
    )
    return (
        f"`{run.folder}`",
        run.started_utc[:19],
        run.ended_utc[:19],
        md(", ".join(run.boards)) or ("none: a rehearsal" if run.rehearsal else "none"),
        md(run.plan),
        ", ".join(models),
        "yes" if run.signed else "no",
    )


def _missing(missing: tuple[Missing, ...]) -> Iterator[str]:
    yield "\n## What is missing\n"
    if not missing:
        yield "Nothing that the journals name."
    yield from (f"* {md(each.what)}: {md(each.why)}" for each in missing[:_MOST_MISSING])
    if len(missing) > _MOST_MISSING:
        yield f"* and {len(missing) - _MOST_MISSING} more, in `manifest.json`"


def _check(contents: Contents) -> Iterator[str]:
    yield "\n## How to check it, without a GPU\n"
    yield "```sh\nsha256sum -c SHA256SUMS        # every file is as it was"
    yield "ecocompute bundle --check .     # and every figure follows from the journals\n```\n"
    yield f"`ecocompute` is EcoCompute cube {md(contents.tool_version)} or newer. Checksums show"
    yield "that nothing changed since the bundle was made, not who made it; a signature beside a"
    yield "journal does (`--signers`)."


def _cite(contents: Contents) -> Iterator[str]:
    told = contents.about
    yield "\n## Citing and using it\n"
    names = "; ".join(md(each.name) for each in told.creators)
    yield f"{names} ({told.date[:4]}): {md(told.title)}. Version {md(told.version)}."
    if not is_named(told):
        yield "\n**Nobody is named as its creator yet**: make it again with `--creator`."
    yield f"\nLicence of the data: [{told.license}]({told.license.url})."
