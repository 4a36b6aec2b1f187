from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ecocompute_cube.analysis.protocol import CLAUSES, Grade, Profile, Verdict, grade

Json = dict[str, Any]
Change = Callable[[Json, str, object], Json]
Check = Callable[[Json], tuple[str, ...]]

#: One change of the conformant document for every clause of the table, and what it breaks.
BROKEN: list[tuple[str, str, str, object]] = [
    ("4.1.1", "power source", "measurement.method", "wall plug"),
    ("4.1.2", "sample rate", "measurement.sample_rate_hz", 9),
    ("4.1.3", "energy of the window", "results.total_energy_joules", None),
    ("4.1.3", "energy of the window", "results.tokens_generated", 0),
    ("4.1.4", "measured means direct", "measurement_source", ...),
    ("4.2.1", "baseline", "results.vs_fp16_energy_pct", None),
    ("4.2.2", "claim", "results.fp16_energy_per_token_mj", None),
    ("4.3.1", "single stream", "workload.batch_size", 8),
    ("4.3.1", "single stream", "scenario", "Offline"),
    ("4.3.2", "output tokens", "measurement.tokens_per_run", 64),
    ("4.3.2", "iterations", "measurement.iterations", 9),
    ("4.3.2", "decoding", "workload.decoding", "sampling, temperature 0.7"),
    ("4.3.3", "context", "workload.context_length", ...),
    ("4.3.4", "warm-up", "measurement.warmup", 0),
    ("4.4.1", "window", "measurement.window", "whole process"),
    ("4.4.2", "output length", "measurement.tokens_per_run", ...),
    ("4.4.3", "trace", "power_trace.files", []),
    ("4.1.2", "trace rate", "power_trace.sample_rate_hz", 1),
    ("4.5.1", "contents", "software.nvidia_driver", ...),
    ("4.5.1", "contents", "workload.params_b", None),
    ("4.5.1", "contents", "results.avg_power_watts", None),
    ("4.5.1", "contents", "software.packages", {}),
    ("4.5.2", "schema version", "schema_version", "ecocompute-energy/1.1"),
    ("4.5.3", "other stack", "software.matches_reference_pins", ...),
    ("4.6.1", "thermal block", "thermal", ...),
    ("4.6.1", "thermal block", "thermal.mode", ...),
    ("4.6.1", "thermal block", "thermal.basis", ...),
    ("4.6.1", "thermal block", "thermal.temperature_peak_c", None),
    ("4.6.2", "arm order", "thermal.arm_order", "as typed"),
    ("4.6.4", "settling", "thermal.steady_state_reached", True),
    ("4.6.4", "settling", "thermal.basis", "unavailable"),
    ("4.8.2", "pooling", "workload.runtime", "graph"),
]


def _parts(graded: Grade) -> set[tuple[str, str]]:
    return {(violation.clause, violation.about) for violation in graded.violations}


@pytest.mark.parametrize(("clause", "about", "place", "value"), BROKEN)
def test_one_change_breaks_one_clause(
    conformant: Json, changed: Change, clause: str, about: str, place: str, value: object
) -> None:
    graded = grade(changed(conformant, place, value), Profile.DATASET)
    assert _parts(graded) == {(clause, about)}


def test_every_clause_of_the_table_is_broken_once() -> None:
    assert {(clause.id, clause.about) for clause in CLAUSES} == {case[:2] for case in BROKEN}


def test_no_part_of_a_clause_stands_twice_in_the_table() -> None:
    assert len({(clause.id, clause.about) for clause in CLAUSES}) == len(CLAUSES)


@pytest.mark.parametrize(("clause", "about", "place", "value"), BROKEN)
def test_cause_and_fix_are_sentences(
    conformant: Json, changed: Change, clause: str, about: str, place: str, value: object
) -> None:
    (violation,) = grade(changed(conformant, place, value), Profile.DATASET).violations
    assert violation.cause.endswith(".")
    assert violation.fix.endswith(".")


def test_what_only_the_dataset_asks_keeps_a_document_conformant(
    conformant: Json, changed: Change
) -> None:
    bare = changed(conformant, "power_trace", ...)
    assert grade(bare, Profile.CORE).verdict is Verdict.PROTOCOL_CONFORMANT
    assert grade(bare, Profile.DATASET).verdict is Verdict.PROTOCOL_CONFORMANT
    assert not grade(bare, Profile.CORE).violations


def test_an_estimate_never_conforms_even_when_it_names_nvml(
    conformant: Json, changed: Change
) -> None:
    estimate = changed(conformant, "results.basis", "interpolated")
    estimate = changed(estimate, "measurement_source", "published dataset")
    assert "4.1.1" in {violation.clause for violation in grade(estimate).violations}


@pytest.mark.parametrize("precision", ["FP16", "NF4", "INT8"])
def test_our_eager_arms_are_eligible(
    ours: Json, changed: Change, no_schema: Check, precision: str
) -> None:
    document = changed(ours, "workload.precision", precision)
    if precision == "FP16":
        own = document["results"]["energy_per_token_mj"]
        document["results"] |= {"fp16_energy_per_token_mj": own, "vs_fp16_energy_pct": 0.0}
    graded = grade(document, Profile.DATASET, no_schema)
    assert (graded.verdict, graded.violations) == (Verdict.DATASET_ELIGIBLE, ())


def test_a_baseline_that_does_not_fit_bars_conformance(
    ours: Json, changed: Change, no_schema: Check
) -> None:
    absent = {"reason": "baseline_does_not_fit"}
    document = changed(ours, "results.fp16_energy_per_token_mj", absent)
    document = changed(document, "results.vs_fp16_energy_pct", absent)
    assert _parts(grade(document, Profile.CORE, no_schema)) == {("4.2.1", "baseline")}


def test_a_rehearsal_is_called_one_before_all_else(
    ours: Json, changed: Change, no_schema: Check
) -> None:
    document = changed(changed(ours, "rehearsal", True), "workload.weights", "random")
    first, *_ = grade(document, Profile.CORE, no_schema).notes
    assert first.code == "rehearsal"
    assert first.text == "This is a rehearsal; nothing was measured."
    measured = grade(changed(ours, "rehearsal", False), Profile.CORE, no_schema)
    assert "rehearsal" not in [note.code for note in measured.notes]


@pytest.mark.parametrize("weights", ["random", "dequantized"])
def test_weights_of_another_origin_are_noted_not_refused(
    ours: Json, changed: Change, no_schema: Check, weights: str
) -> None:
    graded = grade(changed(ours, "workload.weights", weights), Profile.DATASET, no_schema)
    assert graded.verdict is Verdict.DATASET_ELIGIBLE
    (text,) = [note.text for note in graded.notes if note.code == "weights_not_original"]
    assert "not poolable with the named model" in text


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("workload.runtime", "compiled"),
        ("workload.precision", "FP8"),
        ("workload.settings", {"llm_int8_threshold": 0.0}),
        ("certificate.settings", {"outlier_threshold": "0.0"}),
    ],
)
def test_an_extension_conforms_with_a_note_and_is_never_pooled(
    ours: Json, changed: Change, no_schema: Check, place: str, value: object
) -> None:
    document = changed(changed(ours, "workload.precision", "INT8"), place, value)
    core = grade(document, Profile.CORE, no_schema)
    assert core.verdict is Verdict.PROTOCOL_CONFORMANT
    assert "4.8" in {note.code for note in core.notes}
    dataset = grade(document, Profile.DATASET, no_schema)
    assert _parts(dataset) == {("4.8.2", "pooling")}


def test_the_default_threshold_is_no_extension(
    ours: Json, changed: Change, no_schema: Check
) -> None:
    document = changed(ours, "workload.precision", "INT8")
    document = changed(document, "certificate.settings", {"outlier_threshold": "6.0"})
    assert grade(document, Profile.DATASET, no_schema).verdict is Verdict.DATASET_ELIGIBLE


def test_without_a_cooldown_there_is_a_note(ours: Json, changed: Change, no_schema: Check) -> None:
    graded = grade(changed(ours, "thermal.cooldown_s", 0.0), Profile.DATASET, no_schema)
    assert graded.verdict is Verdict.DATASET_ELIGIBLE
    assert "4.6.2" in {note.code for note in graded.notes}


def test_differing_versions_count_even_when_nobody_lists_them(
    conformant: Json, changed: Change
) -> None:
    document = changed(conformant, "software.differs_from_reference_pins", ...)
    document = changed(document, "software.matches_reference_pins", True)
    (violation,) = grade(document).violations
    assert violation.clause == "4.5.3"
    assert "bitsandbytes" in violation.cause
