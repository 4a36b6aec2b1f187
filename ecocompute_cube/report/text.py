"""A run as a table in the terminal (and in the README: the same cells, as Markdown)."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import Absent, MaybeFloat, present, printable
from ecocompute_cube.model.manifest import Weights
from ecocompute_cube.model.plan import against_itself
from ecocompute_cube.report.answer import describe
from ecocompute_cube.report.labels import arm_label, label_of
from ecocompute_cube.report.table import counted, table, three_digits
from ecocompute_cube.report.trends import described
from ecocompute_cube.report.why_text import why_lines
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ecocompute_cube.model.claims import Agreement, Comparison, Effect, Finding, Interval
    from ecocompute_cube.model.report import ArmReport, Report, SessionReport, Trends
    from ecocompute_cube.model.stop import Stopping

_NONE: Final = "–"


class Row(NamedTuple):
    """One arm's cells, in the order of ``headings``."""

    arm: str
    energy: str
    interval: str
    versus: str
    rate: str
    power: str
    perplexity: str
    verdict: str


def headings(report: Report) -> Row:
    """The head of the table."""
    return Row(
        arm="arm",
        energy="mJ/token",
        interval=f"{100 * report.plan.protocol.confidence:g}% interval",
        versus=f"versus {_baseline(report)}",
        rate="tokens/s",
        power="W",
        perplexity="perplexity",
        verdict="verdict",
    )


def _baseline(report: Report) -> str:
    precisions = {arm.precision for arm in report.arms if arm.is_baseline}
    return next(iter(precisions)) if len(precisions) == 1 else "baseline"


def rows(report: Report) -> tuple[Row, ...]:
    """One row an arm."""
    return tuple(_row(arm, report) for arm in report.arms)


def _row(arm: ArmReport, report: Report) -> Row:
    energy = arm.energy
    return Row(
        arm=printable(arm_label(arm, report.arms)),
        energy=three_digits(energy.mj_per_token) if present(energy) else _NONE,
        interval=_interval(energy.interval_mj, three_digits) if present(energy) else _NONE,
        versus=_versus(arm.vs_baseline),
        rate=_number(arm.tokens_per_s, ".1f"),
        power=f"{energy.mean_power_w:.0f}" if present(energy) else _NONE,
        perplexity=perplexity_words(arm),
        verdict="not measured" if report.rehearsal else _verdict(arm),
    )


def _number(value: MaybeFloat, form: str) -> str:
    return format(value, form) if present(value) else _NONE


def _interval(interval: Interval | Absent, form: Callable[[float], str]) -> str:
    if not present(interval):
        return "n = 1"
    return f"{form(interval.low)} to {form(interval.high)}"


def _versus(comparison: Comparison | Absent) -> str:
    if not present(comparison) or not present(comparison.change_pct):
        return _NONE
    change = f"{signed(comparison.change_pct)} %"
    if not present(comparison.interval_pct):
        return change
    return f"{change} ({_interval(comparison.interval_pct, signed)})"


def perplexity_words(arm: ArmReport) -> str:
    """Its value and its change; ``*`` where the weights had been quantized before."""
    found = arm.perplexity
    if not present(found):
        return _NONE
    value = f"{found.value:.2f}"
    if not present(found.delta_pct):
        return value
    mark = "" if arm.weights is Weights.ORIGINAL else " *"  # not what the precision costs
    change = f"{signed(found.delta_pct)} %{mark}"
    if not present(found.delta_interval_pct):
        return f"{value} ({change})"
    return f"{value} ({change}, {_interval(found.delta_interval_pct, signed)})"


def _verdict(arm: ArmReport) -> str:
    if arm.is_baseline:
        return "baseline"
    return arm.vs_baseline.verdict if present(arm.vs_baseline) else _NONE


def as_markdown(report: Report) -> str:
    """The table in Markdown; what a cell holds is neither markup nor a cell of its own."""
    head, *body = (" | ".join(map(_cell, row)) for row in (headings(report), *rows(report)))
    rule = "|".join(["---"] * len(headings(report)))
    return "\n".join([f"| {head} |", f"|{rule}|", *(f"| {line} |" for line in body)])


def as_summary(reports: Sequence[Report], together: Sequence[str] = ()) -> str:
    """Every run for a pull request: question, answer, table, and what lowers the tier.

    ``together`` are sentences that several runs say together; they come first.
    """
    said = [f"- {_cell(sentence)}" for sentence in together]
    first = (
        [f"### What these {len(reports)} runs say together\n\n" + "\n".join(said)] if said else []
    )
    parts = (_summary(report) for report in reports)
    notice = "Not wall power; unverified, not an MLPerf result, GPU-only NVML energy."
    return "\n\n".join([*first, *parts, notice]) + "\n"


def _summary(report: Report) -> str:
    lowered = sorted({code for arm in report.arms for code in arm.lowered_by})
    lines = [f"### {_cell(report.question)}", _cell(report.answer), as_markdown(report)]
    lines += ["Lowers the tier: " + ", ".join(f"`{code}`" for code in lowered)] if lowered else []
    return "\n\n".join([*lines, f"Run `{report.run_id}`."])


def _cell(text: str) -> str:
    return html.escape(printable(text), quote=False).replace("|", "&#124;")


def as_text(report: Report) -> str:
    """The question, the answer, the table, what else was compared, and the findings."""
    lines = [report.question, report.answer, "", *table([headings(report), *rows(report)])]
    for line in comparison_lines(report):
        lines += ["", line]
    lines += ["", *said] if (said := output_lines(report)) else []
    lines += ["", *why] if (why := why_lines(report)) else []
    lines += ["", *how] if (how := experiment_lines(report)) else []
    lines += ["", *finding_lines(report)] if report.findings else []
    lines += ["", *_machines(report)]
    return "".join(f"{printable(line)}\n" for line in lines)


def comparison_lines(report: Report) -> list[str]:
    """Each comparison that is not in the table, and each of an arm with itself."""
    shown = {(arm.arm, arm.vs_baseline.against) for arm in report.arms if present(arm.vs_baseline)}
    return [
        _comparison_line(each, report)
        for each in report.comparisons
        if (each.arm, each.against) not in shown or against_itself(each.arm, each.against)
    ]


def _comparison_line(each: Comparison, report: Report) -> str:
    arm, against = (label_of(side, report.arms) for side in (each.arm, each.against))
    if against_itself(each.arm, each.against):
        return f"A/A, {arm} against {against}: {describe(each)}"
    judged = "not measured" if report.rehearsal else each.verdict
    return f"{arm} against {against}: {_versus(each)}, {judged}"


def output_lines(report: Report) -> list[str]:
    """How far each comparison's two sides decode the same tokens."""
    return [
        f"greedy output, {label_of(each.arm, report.arms)} against "
        f"{label_of(each.against, report.arms)}: {_agreement(each.output)}"
        for each in report.comparisons
        if present(each.output)
    ]


def _agreement(output: Agreement) -> str:
    if output.alike == output.tokens:
        return f"all {output.tokens} tokens alike"
    return (
        f"parts after {output.before_first_difference} of {output.tokens} tokens "
        f"({output.alike} alike)"
    )


def experiment_lines(report: Report) -> list[str]:
    """What ended each session's blocks, and whether energy moved with place or time."""
    several = len(report.stopping) > 1
    stopping = [
        f"{_where(each) if several else ''}{counted(each.blocks, 'block')}, rule {each.rule}: "
        f"{'' if each.ended else 'not ended by it, '}{each.reason}"
        for each in report.stopping
    ]
    trends = [
        f"{_where(each) if several else ''}place within the block, first to last: "
        f"{_effect(each.position)}; drift over the blocks: {_effect(each.drift)}"
        for each in report.trends
    ]
    return [*stopping, *trends]


def _effect(effect: Effect | Absent) -> str:
    return described(effect) if present(effect) else effect.reason


def _where(each: Stopping | Trends) -> str:
    return f"session {each.session + 1}, group {each.group + 1}: "


def finding_lines(report: Report) -> list[str]:
    """Each distinct finding once, with everything it is about."""
    subjects: dict[Finding, list[str]] = {}
    for finding in report.findings:
        alike = finding.model_copy(update={"subject": ""})
        subjects.setdefault(alike, []).append(label_of(finding.subject, report.arms))
    return [
        f"{f.effect}: {f.code} ({', '.join(named)}): {f.cause} {f.fix}"
        for f, named in subjects.items()
    ]


def _machines(report: Report) -> list[str]:
    """Which run this is, and where it ran."""
    return [f"run {report.run_id}, plan {report.plan.name}", *_sessions(report)]


def _sessions(report: Report) -> list[str]:
    return [
        f"session {s.session + 1}: {_count(s)}{s.board.name}, driver {s.board.driver}, "
        f"{_host(s.host.cpu)}"
        if present(s.board)
        else f"session {s.session + 1}: no board, {_host(s.host.cpu)}"
        for s in report.sessions
    ]


def _count(session: SessionReport) -> str:
    return f"{1 + len(session.others)} x " if present(session.others) else ""


def _host(cpu: str | Absent) -> str:
    return cpu if present(cpu) else "unknown CPU"
