"""How long, how much memory, how much disk: rough, and said to be so, before anything loads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.backends.precision import RECIPES
from ecocompute_cube.engine.schedule import groups
from ecocompute_cube.errors import PlanError
from ecocompute_cube.model.plan import PROTOCOL_ITERATIONS, Mode, Precision, Runtime
from ecocompute_cube.units import Second

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm, Plan

#: Decoder layers a second that one host drives at batch 1, eager: tokens/s × layers, the mean of
#: the two protocol runs in data/h200/runs (one H200, 16 cores of a Xeon). The host decides, not the
#: board; another host may be half or twice as fast.
_LAYERS_PER_S: Final = {Precision.FP16: 1410.0, Precision.NF4: 990.0, Precision.INT8: 390.0}
#: Of the others, by what they launch: as FP16, as NF4, between NF4 and INT8 (our probe, one H200).
_LAUNCHED_LIKE: Final = {Precision.BF16: 1410.0, Precision.NF4_DQ: 900.0, Precision.INT8_T0: 640.0}
_UNFUSED_PER_S: Final = 500.0  # torchao's in eager mode, our probe
_CAPTURED_LAYERS_PER_S: Final = 8000.0  # without launches: 0.5B in a graph, our probe
_READ_BYTES_PER_S: Final = 2e12  # of weights, half of what one H200 copies; larger models meet it
_FLOP_PER_S: Final = 2e14  # of a prompt's products, a quarter of what one H200 multiplies
_COMPILE_S: Final = 60.0  # 38 s for a static cache of 7B, our probe
_LOAD_S: Final = 12.0  # importing torch and transformers, on the same host
_LOAD_BYTES_PER_S: Final = 1e9
_SCORE_S: Final = 4.0
CALIBRATION_S: Final = 50.0  #: rests, and twenty seconds and a warm-up for each of two kernels
_PROFILE_S: Final = 3.0
_READING_S: Final = 0.8  # ticks around a window and around two rests
CONTEXT_BYTES: Final = 700_000_000  # a CUDA context with torch's kernels, on the same board
_SPARE: Final = 1.2  # allocator slack
_TRACE_BYTES_PER_S: Final = 120  # 20 samples a second, compressed
_JOURNAL_BYTES: Final = 20_000  # a visit's lines


class Size(NamedTuple):
    """What a prediction needs to know of a model."""

    parameters: int
    layers: int
    hidden: int
    vocabulary: int


def size_of(manifest: Manifest) -> Size:
    """What predictions need of a model that is there."""
    return Size(manifest.parameters, manifest.layers, manifest.hidden_size, manifest.vocab_size)


class Prediction(NamedTuple):
    """Rough figures for a plan."""

    arm_s: dict[str, Second]  #: one visit of each arm, model loaded
    load_s: dict[str, Second]
    memory_bytes: dict[str, int]  #: on the board or boards, each arm
    disk_bytes: int
    first_block_s: Second  #: the longest block with loading
    least_s: Second  #: with as few blocks as the stopping rule may take
    total_s: Second  #: with as many

    @property
    def together_bytes(self) -> int:
        """Memory of all arms side by side."""
        return sum(self.memory_bytes.values())


def predict(plan: Plan, sizes: Mapping[str, Size]) -> Prediction:
    """Figures for ``plan``, given each model's size by its reference."""
    arms = {arm.id: arm for arm in plan.expanded()}
    visit = {name: _visit_s(plan, arm, sizes[arm.model]) for name, arm in arms.items()}
    load = {name: _load_s(arm, sizes[arm.model]) for name, arm in arms.items()}
    protocol = plan.protocol
    once = sum(load.values()) + (len(arms) * _SCORE_S if plan.quality.enabled else 0)
    if protocol.explain and plan.boards == 1 and protocol.mode is not Mode.REHEARSAL:
        once += CALIBRATION_S + len(arms) * _PROFILE_S
    round_s = protocol.sessions * sum(visit.values())
    rounds = protocol.most_blocks * protocol.sessions
    work = protocol.most_blocks * round_s
    return Prediction(
        arm_s=visit,
        load_s=load,
        memory_bytes={
            name: _memory(arm, sizes[arm.model], plan.boards) for name, arm in arms.items()
        },
        disk_bytes=int(_TRACE_BYTES_PER_S * (work + once) + rounds * len(arms) * _JOURNAL_BYTES),
        first_block_s=Second(
            max(sum(visit[a] + load[a] + _SCORE_S for a in group) for group in groups(plan))
        ),
        least_s=Second(protocol.least_blocks * round_s + protocol.sessions * once),
        total_s=Second(work + protocol.sessions * once),
    )


def _rate(arm: Arm, size: Size) -> float:
    """Tokens a second of one row."""
    if arm.runtime in {Runtime.EAGER, Runtime.LOOP}:
        known = _LAYERS_PER_S | _LAUNCHED_LIKE
        return known.get(arm.precision, _UNFUSED_PER_S) / size.layers
    read_s = size.parameters * RECIPES[arm.precision].bits / 8 / _READ_BYTES_PER_S
    return 1 / (size.layers / _CAPTURED_LAYERS_PER_S + read_s)


def _generation_s(arm: Arm, size: Size) -> float:
    """The prompt in one pass, and the rest a token a step."""
    workload = arm.workload
    prompt_s = 2 * size.parameters * workload.batch * workload.prompt_tokens / _FLOP_PER_S
    return prompt_s + workload.generated_tokens / _rate(arm, size)


def _visit_s(plan: Plan, arm: Arm, size: Size) -> Second:
    protocol = plan.protocol
    generation = _generation_s(arm, size)
    count = protocol.iterations or PROTOCOL_ITERATIONS
    if protocol.iterations is None and protocol.mode is Mode.PRECISE:
        count = math.ceil(protocol.window_s / generation)
    warm = protocol.warmup.min_passes * min(
        protocol.warmup.output_tokens, arm.workload.generated_tokens
    )
    waits = _READING_S + 4 * protocol.idle_s + protocol.cooldown_s
    return Second(count * generation + warm / _rate(arm, size) + waits)


def _load_s(arm: Arm, size: Size) -> Second:
    first_pass = _generation_s(arm, size)
    compiles_s = _COMPILE_S if arm.runtime in {Runtime.STATIC, Runtime.COMPILED} else 0.0
    return Second(_LOAD_S + 2 * size.parameters / _LOAD_BYTES_PER_S + first_pass + compiles_s)


def weight_bytes(arm: Arm, size: Size) -> int:
    """Of the embedding in 16 bits and all else in the arm's precision."""
    embedding = size.vocabulary * size.hidden
    linear = max(size.parameters - embedding, 0)
    return int(2 * embedding + linear * RECIPES[arm.precision].bits / 8)


def _memory(arm: Arm, size: Size, boards: int) -> int:
    weights = weight_bytes(arm, size)
    cache = 4 * arm.workload.batch * arm.workload.context_tokens * size.layers * size.hidden
    return int(_SPARE * (weights + cache) + CONTEXT_BYTES * boards)


def check_context(plan: Plan, contexts: Mapping[str, int]) -> None:
    """Whether every row fits every model; ``contexts`` are tokens by name. Raises PlanError."""
    for name, tokens in contexts.items():
        for workload in plan.workloads:
            if workload.context_tokens > tokens:
                raise PlanError(
                    f"{name} takes {tokens} tokens; the plan asks for "
                    f"{workload.prompt_tokens} + {workload.output_tokens}.",
                    "Lower prompt_tokens or output_tokens.",
                )
