"""The clauses of Protocol v1.1, one judge each: what is wrong with a document, or None.

Names follow the published text (DOI 10.5281/zenodo.22958675); ``protocol.CLAUSES`` is the table.
Clauses about several documents (4.2.3, 4.6.3, 4.7) or about what nobody wrote down (the same card,
4.2.1) cannot be judged from one document and have no function here.
"""

from __future__ import annotations

import re
from typing import Final

from ecocompute_cube.analysis.documents import Document, at, number_at, shown, text_at

TOKENS: Final = 256  # clause 4.3.2
ITERATIONS: Final = 10  # clause 4.3.2
MIN_RATE_HZ: Final = 10.0  # clause 4.1.2
FIRST_VERSION: Final = (1, 2)  # clause 4.5.2
PRECISIONS: Final = frozenset({"FP16", "NF4", "INT8"})  # section 7.4; others are 4.8
DIRECT: Final = "direct-nvml"  # clause 4.1.4

_NVML = re.compile(r"\bNVML\b", re.IGNORECASE)
_VERSION = re.compile(r"ecocompute-energy/(\d{1,4})\.(\d{1,4})")


# 4.1 Power


def power_source(document: Document) -> str | None:
    """4.1.1, power is read from NVML. Also refuses estimates: nothing was read for them."""
    method = text_at(document, "measurement.method")
    if method is None:
        return "measurement.method is missing."
    if _NVML.search(method) is None:
        return f"The power source is '{shown(method)}', which does not name NVML."
    if not is_measured(document):
        return f"results.basis is {shown(at(document, 'results.basis'))}: nothing was measured."
    return None


def sample_rate(document: Document) -> str | None:
    """4.1.2, the board is sampled fast enough."""
    return _too_slow(document, "measurement.sample_rate_hz")


def energy_over_window(document: Document) -> str | None:
    """4.1.3, energy is summed over the window: an integral leaves joules and tokens behind."""
    if not is_measured(document):
        return None
    joules = number_at(document, "results.total_energy_joules")
    tokens = number_at(document, "results.tokens_generated")
    if joules is None or joules <= 0:
        return "results.total_energy_joules, the energy of the window, is missing or not positive."
    if tokens is None or tokens <= 0:
        return "results.tokens_generated is missing or not positive."
    return None


def measured_means_direct(document: Document) -> str | None:
    """4.1.4, measured if and only if read from NVML directly."""
    source = text_at(document, "measurement_source")
    if is_measured(document) == (source == DIRECT):
        return None
    basis = shown(at(document, "results.basis"))
    return f"results.basis is {basis}, but measurement_source is {_quoted(source)}."


# 4.2 Baseline

_COMPARISON: Final = ("fp16_energy_per_token_mj", "vs_fp16_energy_pct")


def baseline_present(document: Document) -> str | None:
    """4.2.1, FP16 of the same session stands beside it; an FP16 document is that baseline."""
    if text_at(document, "workload.precision") == "FP16":
        return None
    missing = [key for key in _COMPARISON if _no(document, key)]
    if missing and not _unfounded_claim(document):
        return f"No FP16 baseline of the same session: {_listed(missing)} missing in results."
    return None


def no_claim_without_baseline(document: Document) -> str | None:
    """4.2.2, no comparison without what it compares with."""
    if not _unfounded_claim(document):
        return None
    return "results.vs_fp16_energy_pct is claimed without results.fp16_energy_per_token_mj."


def _unfounded_claim(document: Document) -> bool:
    return not _no(document, "vs_fp16_energy_pct") and _no(document, "fp16_energy_per_token_mj")


# 4.3 Workload


def single_stream(document: Document) -> str | None:
    """4.3.1, batch 1, and labelled so."""
    batch = at(document, "workload.batch_size")
    scenario = at(document, "scenario")
    if batch != 1 or isinstance(batch, bool):
        return f"workload.batch_size is {_quoted(batch)}, not 1."
    if scenario != "SingleStream":
        return f"scenario is {_quoted(scenario)}, although batch 1 is single-stream decoding."
    return None


def output_length(document: Document) -> str | None:
    """4.3.2, the published output length; a missing one is clause 4.4.2's."""
    tokens = number_at(document, "measurement.tokens_per_run")
    if tokens is None or tokens == TOKENS:
        return None
    return f"measurement.tokens_per_run is {tokens:g}, not {TOKENS}."


def iterations(document: Document) -> str | None:
    """4.3.2, the published number of generations."""
    count = number_at(document, "measurement.iterations")
    if count is None:
        return "measurement.iterations is missing."
    if count != ITERATIONS:
        return f"measurement.iterations is {count:g}, not {ITERATIONS}."
    return None


def greedy(document: Document) -> str | None:
    """4.3.2, greedy decoding, said so."""
    decoding = text_at(document, "workload.decoding")
    if decoding is None:
        return "workload.decoding is not recorded."
    if decoding.strip().lower() != "greedy":
        return f"workload.decoding is {_quoted(decoding)}, not greedy."
    return None


def context_recorded(document: Document) -> str | None:
    """4.3.3, the context length is on record."""
    context = number_at(document, "workload.context_length")
    if context is None or context < 1:
        return "workload.context_length is missing or below 1."
    return None


def warmed_up(document: Document) -> str | None:
    """4.3.4, something ran before the window."""
    runs = number_at(document, "measurement.warmup")
    if runs is None:
        runs = number_at(document, "thermal.warmup_runs")
    if runs is None or runs < 1:
        return "No warm-up before the measurement is recorded."
    return None


# 4.4 Window


def window_stated(document: Document) -> str | None:
    """4.4.1, generation only. A trace's window does not count: it may span more."""
    window = text_at(document, "measurement.window")
    if window is None:
        return "measurement.window is not stated."
    if not window.strip().lower().startswith("generation"):
        return f"measurement.window is {_quoted(window)}, not the generation window."
    return None


def length_stated(document: Document) -> str | None:
    """4.4.2, the output length stands beside the figure."""
    if number_at(document, "measurement.tokens_per_run") is None:
        return "measurement.tokens_per_run, the output length behind the figure, is missing."
    return None


def trace_attached(document: Document) -> str | None:
    """4.4.3, the window can be cut again."""
    if at(document, "power_trace.files"):
        return None
    return "power_trace.files names no trace from which the window could be cut again."


def trace_rate(document: Document) -> str | None:
    """4.1.2, the trace is dense enough to cut the window again."""
    return _too_slow(document, "power_trace.sample_rate_hz")


# 4.5 Report

_CONTENTS_TEXT: Final = (
    "system_under_test.gpu",
    "system_under_test.gpu_arch",
    "workload.model_name",
    "workload.precision",
    "software.nvidia_driver",
)
_CONTENTS_NUMBERS: Final = ("workload.params_b", "workload.batch_size")
_CONTENTS_MEASURED: Final = (
    "results.energy_per_token_mj",
    "results.throughput_tokens_per_s",
    "results.avg_power_watts",
)


def contents(document: Document) -> str | None:
    """4.5.1, what every report names; the context length is clause 4.3.3's."""
    numbers = _CONTENTS_NUMBERS + (_CONTENTS_MEASURED if is_measured(document) else ())
    missing = [place for place in _CONTENTS_TEXT if text_at(document, place) is None]
    missing += [place for place in numbers if not (number_at(document, place) or 0) > 0]
    if not at(document, "software.packages"):
        missing.append("software.packages")
    return f"Missing or not positive: {_listed(missing)}." if missing else None


def schema_floor(document: Document) -> str | None:
    """4.5.2, a version of the format that has room for all this."""
    version = _version(document)
    if version is None or version >= FIRST_VERSION:
        return None
    first = ".".join(map(str, FIRST_VERSION))
    return f"schema_version is {version[0]}.{version[1]}; version {first} is the first accepted."


def other_stack_flagged(document: Document) -> str | None:
    """4.5.3, other versions than the pinned ones are flagged. No pins, no claim, no flag."""
    differing = _differing_packages(document)
    if not differing or at(document, "software.matches_reference_pins") is False:
        return None
    return (
        f"The software differs from the reference pins ({_listed(differing)}), "
        "but matches_reference_pins is not false."
    )


def _differing_packages(document: Document) -> list[str]:
    stated = at(document, "software.differs_from_reference_pins")
    if isinstance(stated, list) and stated:
        return [shown(entry) for entry in stated]
    pins = at(document, "software.reference_pins")
    used = at(document, "software.packages")
    if not isinstance(pins, dict) or not isinstance(used, dict):
        return []
    return [shown(name) for name, pin in pins.items() if used.get(name, pin) != pin]


# 4.6 Thermal state

_TEMPERATURES: Final = ("start", "steady", "end", "peak")


def thermal_recorded(document: Document) -> str | None:
    """4.6.1, the thermal block. Its steady temperature may be absent: few runs settle."""
    if not isinstance(at(document, "thermal"), dict):
        return "The thermal block is missing, so the thermal state is unknown (not cold)."
    if text_at(document, "thermal.mode") not in ("cold", "steady"):
        return "thermal.mode is neither cold nor steady."
    basis = text_at(document, "thermal.basis")
    if basis == "unavailable":
        return None
    if basis != "measured":
        return "thermal.basis is neither measured nor unavailable."
    missing = [key for key in ("start", "end", "peak") if _temperature(document, key) is None]
    if missing:
        return f"thermal.basis is measured, but no temperature is given for: {_listed(missing)}."
    return None


def order_disclosed(document: Document) -> str | None:
    """4.6.2, the order of the arms. A fixed one passes when more is said about it than the word.

    A missing thermal block is clause 4.6.1's.
    """
    if not isinstance(at(document, "thermal"), dict):
        return None
    order = (text_at(document, "thermal.arm_order") or "").strip().lower()
    if order.startswith(("randomized", "randomised", "counterbalanced")):
        return None
    if not order.startswith("fixed"):
        return "thermal.arm_order says neither randomized, counterbalanced nor fixed."
    if order != "fixed" or text_at(document, "thermal.note") is not None:
        return None
    return "thermal.arm_order is fixed, and nothing says why or how."


def unsettled_admitted(document: Document) -> str | None:
    """4.6.4, no reading without a sensor, no settled state without its temperature."""
    settled = at(document, "thermal.steady_state_reached") is True
    read = any(_temperature(document, key) is not None for key in _TEMPERATURES)
    if text_at(document, "thermal.basis") == "unavailable" and (settled or read):
        return "thermal.basis is unavailable, yet the block gives a temperature or a settled state."
    if settled and _temperature(document, "steady") is None:
        return "thermal.steady_state_reached is true, but temperature_steady_c is missing."
    return None


def _temperature(document: Document, when: str) -> float | None:
    return number_at(document, f"thermal.temperature_{when}_c")


# 4.8 Additional measurements

_THRESHOLD_KEYS: Final = frozenset({"llm_int8_threshold", "outlier_threshold"})


def extension(document: Document) -> str | None:
    """What sets a document apart from the published configurations, or None."""
    precision = text_at(document, "workload.precision")
    runtime = text_at(document, "workload.runtime")
    if precision is not None and precision not in PRECISIONS:
        return f"precision {shown(precision)}"
    if runtime is not None and runtime != "eager":
        return f"runtime {shown(runtime)}"
    phase = text_at(document, "workload.phase")
    if phase is not None and phase != "generate":
        return f"phase {shown(phase)}"
    boards = number_at(document, "system_under_test.accelerator_count")
    if boards is not None and boards > 1:
        return f"a model split over {boards:g} boards"
    if precision == "INT8" and _stated_threshold(document) == 0:
        return "INT8 with outlier threshold 0"
    return None


def _stated_threshold(document: Document) -> float | None:
    """The outlier threshold of LLM.int8(), as asked for or as found on the loaded modules."""
    blocks = [at(document, "workload"), at(document, "certificate")]
    while blocks:
        block = blocks.pop()
        if isinstance(block, dict):
            for key in _THRESHOLD_KEYS & block.keys():
                return _loose_number(block[key])
            blocks.extend(block.values())
    return None


def _loose_number(value: object) -> float | None:
    """Settings found on modules are recorded as text."""
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return None


def nothing_to_keep_apart(document: Document) -> str | None:
    """4.8.2, additional measurements are never pooled."""
    what = extension(document)
    return None if what is None else f"This is an additional measurement ({what})."


# Words


def is_measured(document: Document) -> bool:
    """Whether a document claims to be a measurement."""
    return at(document, "results.basis") == "measured"


def _version(document: Document) -> tuple[int, int] | None:
    found = _VERSION.match(text_at(document, "schema_version") or "")
    return None if found is None else (int(found[1]), int(found[2]))


def _too_slow(document: Document, place: str) -> str | None:
    rate = number_at(document, place)
    if rate is None:
        return f"{place} is missing."
    return f"{place} is {rate:g}, below {MIN_RATE_HZ:g}." if rate < MIN_RATE_HZ else None


def _no(document: Document, key: str) -> bool:
    return number_at(document, f"results.{key}") is None


def _quoted(value: object) -> str:
    return "missing" if value is None else f"'{shown(value)}'"


def _listed(words: list[str]) -> str:
    most = 6
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
