"""The published Protocol v1.1 (DOI 10.5281/zenodo.22958675) as a table of pure functions.

::

    schema-invalid < schema-valid < protocol-conformant < dataset-eligible
          │               │                 │                     └ and nothing bars pooling it
          │               │                 └ and every clause that one document can show holds
          │               └ its schema holds
          └ it is not an energy.json
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from ecocompute_cube.analysis import clauses
from ecocompute_cube.analysis.clauses import ITERATIONS, MIN_RATE_HZ, TOKENS, extension
from ecocompute_cube.analysis.documents import (
    Document,
    at,
    format_of,
    number_at,
    schema_errors,
    shown,
    text_at,
)
from ecocompute_cube.model.base import Record


class Verdict(enum.StrEnum):
    """How far a document comes; ``rank`` orders them."""

    SCHEMA_INVALID = "schema-invalid"
    SCHEMA_VALID = "schema-valid"
    PROTOCOL_CONFORMANT = "protocol-conformant"
    DATASET_ELIGIBLE = "dataset-eligible"

    @property
    def rank(self) -> int:
        """0 for the lowest."""
        return list(Verdict).index(self)


class Profile(enum.StrEnum):
    """What is asked of a document."""

    CORE = "v1.1-core"
    DATASET = "dataset-eligible"

    @property
    def goal(self) -> Verdict:
        """The best verdict that this profile gives."""
        return _GOALS[self]


_GOALS: Final = {
    Profile.CORE: Verdict.PROTOCOL_CONFORMANT,
    Profile.DATASET: Verdict.DATASET_ELIGIBLE,
}


class Violation(Record):
    """A clause that does not hold, and what would mend it."""

    clause: str  #: number in the published text, "4.3.2"
    about: str  #: which part of that clause
    profile: Profile  #: the lowest profile that demands it
    cause: str
    fix: str


class Note(Record):
    """What a reader must know although nothing is violated."""

    code: str
    text: str


class Grade(Record):
    """What a document is worth under a profile, and why."""

    verdict: Verdict
    violations: tuple[Violation, ...]
    schema_errors: tuple[str, ...]
    notes: tuple[Note, ...]


Judge: TypeAlias = Callable[[Document], str | None]


class Clause(NamedTuple):
    """One checkable sentence of the protocol."""

    id: str
    about: str
    profile: Profile  #: the lowest profile that demands it
    judge: Judge  #: the cause when it is violated
    fix: str


def grade(
    document: Document,
    profile: Profile = Profile.CORE,
    check: Callable[[Document], tuple[str, ...]] = schema_errors,
) -> Grade:
    """How far a document comes under a profile.

    ``check`` says what its schema has against it. Clauses are judged even where the schema fails:
    a rate of 5 Hz is both, and its reader wants the clause.
    """
    errors = check(document)
    known = format_of(document) is not None
    violations = tuple(_violations(document, profile)) if known else ()
    return Grade(
        verdict=_verdict(profile, errors, violations),
        violations=violations,
        schema_errors=errors,
        notes=tuple(_notes(document, profile)) if known else (),
    )


def _violations(document: Document, profile: Profile) -> Iterator[Violation]:
    for clause in CLAUSES:
        if clause.profile in (Profile.CORE, profile):
            cause = clause.judge(document)
            if cause is not None:
                yield Violation(
                    clause=clause.id,
                    about=clause.about,
                    profile=clause.profile,
                    cause=cause,
                    fix=clause.fix,
                )


def _verdict(
    profile: Profile, errors: tuple[str, ...], violations: tuple[Violation, ...]
) -> Verdict:
    if errors:
        return Verdict.SCHEMA_INVALID
    if not violations:
        return profile.goal
    if any(violation.profile is Profile.CORE for violation in violations):
        return Verdict.SCHEMA_VALID
    return Verdict.PROTOCOL_CONFORMANT


#: Where the published text is silent: the trace (4.4.3) and its rate are only recommended there,
#: yet its own checker demands a trace of what enters the dataset; the cooldown of 4.6.2 is a note,
#: because documents that record none are graded conformant there.
CLAUSES: Final = (
    Clause(
        "4.1.1",
        "power source",
        Profile.CORE,
        clauses.power_source,
        "Measure with NVML on the device and name it in measurement.method.",
    ),
    Clause(
        "4.1.2",
        "sample rate",
        Profile.CORE,
        clauses.sample_rate,
        f"Sample at {MIN_RATE_HZ:g} Hz or faster and record the rate achieved.",
    ),
    Clause(
        "4.1.3",
        "energy of the window",
        Profile.CORE,
        clauses.energy_over_window,
        "Record total_energy_joules and tokens_generated of the generation window.",
    ),
    Clause(
        "4.1.4",
        "measured means direct",
        Profile.CORE,
        clauses.measured_means_direct,
        f"Call only readings of source {clauses.DIRECT} measured, and name every other basis.",
    ),
    Clause(
        "4.2.1",
        "baseline",
        Profile.CORE,
        clauses.baseline_present,
        "Measure FP16 in the same session on the same card and record both results fields.",
    ),
    Clause(
        "4.2.2",
        "claim",
        Profile.CORE,
        clauses.no_claim_without_baseline,
        "Drop the claim, or record the FP16 figure it was computed from.",
    ),
    Clause(
        "4.3.1",
        "single stream",
        Profile.CORE,
        clauses.single_stream,
        "Measure batch 1 as SingleStream; keep other batches as additional measurements (4.8).",
    ),
    Clause(
        "4.3.2",
        "output tokens",
        Profile.CORE,
        clauses.output_length,
        f"Generate {TOKENS} tokens; keep other lengths as additional measurements (4.8).",
    ),
    Clause(
        "4.3.2",
        "iterations",
        Profile.CORE,
        clauses.iterations,
        f"Run {ITERATIONS} generations in one window and record them.",
    ),
    Clause(
        "4.3.2",
        "decoding",
        Profile.CORE,
        clauses.greedy,
        "Decode greedily and record workload.decoding as greedy.",
    ),
    Clause(
        "4.3.3",
        "context",
        Profile.CORE,
        clauses.context_recorded,
        "Record workload.context_length in tokens.",
    ),
    Clause(
        "4.3.4",
        "warm-up",
        Profile.CORE,
        clauses.warmed_up,
        "Warm up before the window and record measurement.warmup.",
    ),
    Clause(
        "4.4.1",
        "window",
        Profile.CORE,
        clauses.window_stated,
        "Measure generation only and record measurement.window as generation.",
    ),
    Clause(
        "4.4.2",
        "output length",
        Profile.CORE,
        clauses.length_stated,
        "Record measurement.tokens_per_run.",
    ),
    Clause(
        "4.4.3",
        "trace",
        Profile.DATASET,
        clauses.trace_attached,
        "Keep the power trace of the run and name its files in power_trace.files.",
    ),
    Clause(
        "4.1.2",
        "trace rate",
        Profile.DATASET,
        clauses.trace_rate,
        f"Keep a trace of {MIN_RATE_HZ:g} Hz or faster and record power_trace.sample_rate_hz.",
    ),
    Clause(
        "4.5.1",
        "contents",
        Profile.CORE,
        clauses.contents,
        "Record them; 'ecocompute measure' does.",
    ),
    Clause(
        "4.5.2",
        "schema version",
        Profile.CORE,
        clauses.schema_floor,
        "Leave an old document as it is, and measure again for a newer one.",
    ),
    Clause(
        "4.5.3",
        "other stack",
        Profile.CORE,
        clauses.other_stack_flagged,
        "Set software.matches_reference_pins to false, and do not compare the figure directly.",
    ),
    Clause(
        "4.6.1",
        "thermal block",
        Profile.CORE,
        clauses.thermal_recorded,
        "Record mode, basis and the temperatures at start, end and peak, "
        "or basis unavailable where the card has no sensor.",
    ),
    Clause(
        "4.6.2",
        "arm order",
        Profile.CORE,
        clauses.order_disclosed,
        "Randomise the order of the arms, or disclose in thermal.note why it was fixed.",
    ),
    Clause(
        "4.6.4",
        "settling",
        Profile.CORE,
        clauses.unsettled_admitted,
        "Report steady_state_reached as false, or the temperature at which it settled.",
    ),
    Clause(
        "4.8.2",
        "pooling",
        Profile.DATASET,
        clauses.nothing_to_keep_apart,
        "Publish it under its own label; it never enters the published dataset.",
    ),
)


# Notes

_MOST_TRACES: Final = 8  # a document names two; more would bury the report in notes


def _notes(document: Document, profile: Profile) -> Iterator[Note]:
    if at(document, "rehearsal") is True:
        yield Note(code="rehearsal", text="This is a rehearsal; nothing was measured.")
    what = extension(document)
    if what is not None:
        text = f"An additional measurement ({what}): label it as such, never pool it."
        yield Note(code="4.8", text=text)
    weights = text_at(document, "workload.weights")
    if weights in ("random", "dequantized"):
        text = f"Weights are {weights}: not poolable with the named model."
        yield Note(code="weights_not_original", text=text)
    if isinstance(at(document, "thermal"), dict) and not _cooled_down(document):
        text = "No enforced cooldown between arms is recorded."
        yield Note(code="4.6.2", text=text)
    yield from _slow_traces(document)
    if profile is Profile.DATASET:
        text = "Entering the dataset also takes two sessions or more, and a review."
        yield Note(code="4.7.1", text=text)


def _cooled_down(document: Document) -> bool:
    return (number_at(document, "thermal.cooldown_s") or 0) > 0


def _slow_traces(document: Document) -> Iterator[Note]:
    """The rate that a trace achieved, which the clause asks for and no checker has judged."""
    files = at(document, "power_trace.files")
    for file in files[:_MOST_TRACES] if isinstance(files, list) else []:
        rate = _achieved_rate(file) if isinstance(file, dict) else None
        if rate is not None and rate < MIN_RATE_HZ * 0.95:  # a sleeping thread loses a few percent
            text = (
                f"{shown(file.get('file'))} holds {rate:.1f} samples a second over its length, "
                f"fewer than {MIN_RATE_HZ:g}: the sampler was starved for a while."
            )
            yield Note(code="4.1.2", text=text)


def _achieved_rate(file: Document) -> float | None:
    stated = number_at(file, "achieved_rate_hz")
    if stated is not None:
        return stated
    samples = number_at(file, "samples")
    start, end = number_at(file, "phases.trace_start_s"), number_at(file, "phases.trace_end_s")
    if samples is None or start is None or end is None or end <= start:
        return None
    return samples / (end - start)
