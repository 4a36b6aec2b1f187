"""What is asked: models, arms, workloads, protocol, quality."""

from __future__ import annotations

import difflib
import enum
import json
import re
from collections import Counter
from pathlib import PurePath
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

from ecocompute_cube.errors import PlanError
from ecocompute_cube.model.architectures import architecture
from ecocompute_cube.model.around import Cooldown, Quality, Warmup
from ecocompute_cube.model.base import Record, canonical_json, sha256_hex
from ecocompute_cube.model.hub_reference import HUB_PREFIX, parse_hub
from ecocompute_cube.model.stop import AdaptiveStop, FixedStop, Stop

EMBEDDED: Final = "embedded"
RANDOM_PREFIX: Final = "random:"


class Precision(enum.StrEnum):
    """How the linear weights are held while the model runs."""

    FP16 = "FP16"
    BF16 = "BF16"
    NF4 = "NF4"  #: bitsandbytes, blocks of 64 with a scale each
    NF4_DQ = "NF4-DQ"  #: the same, with the scales quantized as well (double quantization)
    INT8 = "INT8"  #: bitsandbytes, outliers beyond 6.0 multiplied in FP16: the library's default
    INT8_T0 = "INT8-T0"  #: the same with threshold 0: no outliers are looked for
    FP8_WO = "FP8-WO"  #: torchao, weights alone (W8A16), BF16 beside them
    FP8_DYN = "FP8-DYN"  #: torchao, weights and activations, scales by token at run time
    INT8_WO = "INT8-WO"  #: torchao, weights alone, BF16 beside them
    INT4_WO = "INT4-WO"  #: torchao, weights alone in groups of 128, BF16 beside them
    AS_SHIPPED = "AS-SHIPPED"  #: as a checkpoint that is already quantized says


BASELINE: Final = Precision.FP16


class Runtime(enum.StrEnum):
    """How the decode loop is driven."""

    EAGER = "eager"  #: transformers' plain generate()
    STATIC = "static"  #: generate() with a static cache, which transformers compiles
    LOOP = "loop"  #: our decode step over a static cache, launched by Python
    GRAPH = "graph"  #: the same step, captured once as a CUDA graph and replayed
    COMPILED = "compiled"  #: the same step through torch.compile, then captured


class Mode(enum.StrEnum):
    """How long a window is."""

    PROTOCOL = "protocol-v1.1"  #: exactly 10 generations of 256 tokens, batch 1 (published 4.3)
    PRECISE = "precise"  #: whole generations until window_s and 200 ticks have passed
    REHEARSAL = "rehearsal"  #: without a board: tokens and perplexity only


PROTOCOL_TOKENS: Final = 256  # Protocol v1.1, clause 4.3
PROTOCOL_ITERATIONS: Final = 10  # Protocol v1.1, clause 4.3
REHEARSAL_TOKENS: Final = 32
DEFAULT_PROMPT_TOKENS: Final = 10  # what the published measurements used
DEFAULT_BLOCKS: Final = 3
PRECISE_S: Final = 20.0  # two ticks of 100 ms are then 1 % of a window
PRECISE_TICKS: Final = 200  # the same where a tick is longer
IDLE_S: Final = 1.0  # ten ticks of the slowest counter seen
MOST_BOARDS: Final = 16  # in one host of NVIDIA's largest (HGX, DGX-2)


class ArmChoice(Record):
    """A precision and a runtime, written ``NF4`` or ``NF4/eager``; ``NF4#2`` is the same again."""

    precision: Precision
    runtime: Runtime
    replica: int = 1

    def __str__(self) -> str:
        again = f"#{self.replica}" if self.replica > 1 else ""
        return f"{self.precision}/{self.runtime}{again}"


#: Runtimes that replay what one board was given: a model that is split has none.
CAPTURED: Final = frozenset({Runtime.GRAPH, Runtime.COMPILED})


class Phase(enum.StrEnum):
    """Which part of a generation a window repeats."""

    GENERATE = "generate"  #: the prompt and every output token
    PREFILL = "prefill"  #: the prompt up to its first token, energy per prompt token
    DECODE = "decode"  #: the output alone, after a prompt whose pass lies before the window


class Workload(Record):
    """What each generation does. All counts are per row of the batch."""

    prompt_tokens: int = Field(default=DEFAULT_PROMPT_TOKENS, ge=1)
    output_tokens: int = Field(default=PROTOCOL_TOKENS, ge=2)
    batch: int = Field(default=1, ge=1)
    #: the part that a window repeats; left out when written if it is the whole
    phase: Phase = Field(default=Phase.GENERATE, exclude_if=lambda value: value is Phase.GENERATE)

    @property
    def generated_tokens(self) -> int:
        """How many new tokens a generation makes."""
        return 1 if self.phase is Phase.PREFILL else self.output_tokens

    def counted(self, generated: int) -> int:
        """The tokens that a generation of so many new ones is paid for."""
        return self.prompt_tokens if self.phase is Phase.PREFILL else generated

    @property
    def context_tokens(self) -> int:
        """Length of a row when it is finished."""
        return self.prompt_tokens + self.generated_tokens

    @property
    def slug(self) -> str:
        """A short name for file names."""
        shape = f"b{self.batch}-p{self.prompt_tokens}"
        if self.phase is Phase.PREFILL:
            return f"{shape}-prefill"
        decode = "-decode" if self.phase is Phase.DECODE else ""
        return f"{shape}-o{self.output_tokens}{decode}"


class Protocol(Record):
    """How the work is repeated, ordered and judged. Stored before the first window."""

    mode: Mode = Mode.PROTOCOL
    #: generations a window; null: by the mode
    iterations: int | None = Field(default=None, ge=1, le=10_000)
    #: least length of a precise window, or 200 ticks of the counter if longer; below 20 s: as said
    window_s: float = Field(default=PRECISE_S, gt=0, le=3600)
    #: complete blocks a session, by the rule ``fixed``
    blocks: int = Field(default=DEFAULT_BLOCKS, ge=1, le=1000)
    #: what ends a session's blocks; left out when written if ``fixed``, as by early versions, so
    #: that their plans keep their hash and their runs go on
    stop: Stop = Field(default=FixedStop(), exclude_if=lambda value: value == FixedStop())
    sessions: int = Field(default=1, ge=1, le=1000)  #: separately started machines
    cooldown_s: float = Field(default=0.0, ge=0, le=3600)  #: pause before each visit of an arm
    #: until the board is cool, besides; null, and left out when written, if there is no such rule
    cooldown: Cooldown | None = Field(default=None, exclude_if=lambda value: value is None)
    warmup: Warmup = Warmup()
    #: the board at rest before the warm-up and after the window, for idle power; 0: not at all;
    #: left out when written if it is 1
    idle_s: float = Field(default=IDLE_S, ge=0, le=60, exclude_if=lambda value: value == IDLE_S)
    #: a copy and a product once a board, and a profile once an arm, for where the energy goes; left
    #: out when written if it is so
    explain: bool = Field(default=True, exclude_if=lambda value: value)
    threshold_pct: float = Field(default=2.0, gt=0, lt=100)  #: what counts as a difference
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _one_rule(self) -> Protocol:
        if isinstance(self.stop, AdaptiveStop) and self.blocks != DEFAULT_BLOCKS:
            raise ValueError(
                "blocks is for the rule 'fixed'; take it out, or say max_blocks under stop"
            )
        return self

    @property
    def least_blocks(self) -> int:
        """The fewest complete blocks of a finished session."""
        return self.stop.min_blocks if isinstance(self.stop, AdaptiveStop) else self.blocks

    @property
    def most_blocks(self) -> int:
        """The most complete blocks of a session."""
        return self.stop.max_blocks if isinstance(self.stop, AdaptiveStop) else self.blocks


class Selector(Record):
    """Some of what identifies an arm; what is left out matches everything."""

    model: str | None = None
    precision: Precision | None = None
    runtime: Runtime | None = None

    @field_validator("model")
    @classmethod
    def _without_folders(cls, value: str | None) -> str | None:
        return None if value is None else public_reference(value)

    def matches(self, arm: Arm) -> bool:
        """Whether every field given here is the arm's; a replica is compared with itself only."""
        return (
            arm.replica == 1
            and self.model in (None, arm.model)
            and self.precision in (None, arm.precision)
            and self.runtime in (None, arm.runtime)
        )


class ContrastChoice(Record):
    """Compare each arm matching ``arm`` with itself, changed as ``against`` says."""

    arm: Selector
    against: Selector


class Arm(Record):
    """One thing that is measured: a model, a workload, a precision, a runtime."""

    model: str
    workload: Workload
    precision: Precision
    runtime: Runtime
    replica: int = Field(default=1, ge=1)

    @property
    def id(self) -> str:
        """A name that is safe in paths and unique within a plan."""
        again = f"{_REPLICA}{self.replica}" if self.replica > 1 else ""
        parts = (model_slug(self.model), self.workload.slug, self.precision, self.runtime)
        return "_".join(parts) + again

    @property
    def original(self) -> Arm:
        """The arm that a replica is the same as; an original is its own."""
        return self.model_copy(update={"replica": 1})

    @property
    def is_baseline(self) -> bool:
        """Whether others are compared with this arm."""
        return self == self.baseline

    @property
    def baseline(self) -> Arm:
        """FP16 of the same model, workload and runtime."""
        return self.original.changed(Selector(precision=BASELINE))

    def changed(self, selector: Selector) -> Arm:
        """The same arm with the selector's fields in place of its own."""
        return Arm(
            model=selector.model or self.model,
            workload=self.workload,
            precision=selector.precision or self.precision,
            runtime=selector.runtime or self.runtime,
            replica=self.replica,
        )


class Contrast(Record):
    """A named pair of arms: ``arm`` is reported relative to ``against``."""

    arm: str
    against: str


_REPLICA: Final = "_r"


def against_itself(arm: str, against: str) -> bool:
    """Whether an id is that of another's replica: a comparison that should find nothing (A/A)."""
    return arm.startswith(f"{against}{_REPLICA}")


ArmText = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(/[A-Za-z]+)?(#[2-9])?$")]
Reference = Annotated[str, Field(max_length=1024)]  #: shorter than any system's longest path


class Plan(Record):
    """Everything that decides what a run does."""

    format: Literal["ecocompute-plan/1"] = "ecocompute-plan/1"
    name: str = Field(min_length=1, max_length=80)
    models: tuple[Reference, ...] = Field(default=(EMBEDDED,), min_length=1)
    arms: tuple[ArmText, ...] = Field(default=("FP16", "NF4", "INT8"), min_length=1)
    workloads: tuple[Workload, ...] = Field(default=(Workload(),), min_length=1)
    contrasts: tuple[ContrastChoice, ...] = ()
    #: what others are compared with where FP16 does not fit the board; null: the widest that does;
    #: left out when written if null
    baseline: Precision | None = Field(default=None, exclude_if=lambda value: value is None)
    #: how many boards each model is split over, by layers; left out when written if it is 1
    boards: int = Field(default=1, ge=1, le=MOST_BOARDS, exclude_if=lambda value: value == 1)
    protocol: Protocol = Protocol()
    quality: Quality = Quality()

    @field_validator("arms")
    @classmethod
    def _arms_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            parse_arm(text)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Plan:
        _refuse_repeats("model", [model_slug(public_reference(model)) for model in self.models])
        self._check_arms()
        _refuse_repeats("workload", [workload.slug for workload in self.workloads])
        if self.baseline is not None and self.baseline not in {c.precision for c in self.choices}:
            raise ValueError(f"the baseline {self.baseline} is not among the arms")
        if self.protocol.mode is Mode.PROTOCOL:
            self._check_protocol_mode()
        return self

    def _check_arms(self) -> None:
        names = [str(choice) for choice in self.choices]
        _refuse_repeats("arm", names, "; write an arm against itself as FP16, FP16#2")
        for choice in self.choices:
            if str(choice.model_copy(update={"replica": 1})) not in names:
                raise ValueError(f"{choice} is a replica; list its original too")
        if self.boards > 1 and all(choice.runtime in CAPTURED for choice in self.choices):
            raise ValueError(
                f"a model that is split over {self.boards} boards cannot be captured, and every "
                f"arm is; add {self.choices[0].precision}/{Runtime.LOOP}"
            )

    def _check_protocol_mode(self) -> None:
        if self.protocol.iterations not in (None, PROTOCOL_ITERATIONS):
            raise ValueError(
                f"mode {Mode.PROTOCOL} has exactly {PROTOCOL_ITERATIONS} iterations a window; "
                "leave iterations out, or use mode 'precise'"
            )
        for workload in self.workloads:
            if workload != Workload(prompt_tokens=workload.prompt_tokens):
                raise ValueError(
                    f"mode {Mode.PROTOCOL} has exactly batch 1 and {PROTOCOL_TOKENS} output "
                    "tokens, prompt and output together; use mode 'precise' for other workloads"
                )

    @property
    def choices(self) -> tuple[ArmChoice, ...]:
        """Precision and runtime of each entry under ``arms``."""
        return tuple(parse_arm(text) for text in self.arms)

    def expanded(self) -> tuple[Arm, ...]:
        """Every arm: models × workloads × arms, in the plan's order."""
        return tuple(
            Arm(
                model=public_reference(model),
                workload=workload,
                precision=choice.precision,
                runtime=choice.runtime,
                replica=choice.replica,
            )
            for model in self.models
            for workload in self.workloads
            for choice in self.choices
        )

    def expanded_contrasts(self) -> tuple[Contrast, ...]:
        """Each precision against FP16 of the same runtime, then the plan's own contrasts.

        A replica is compared with its original, and with nothing else.

        Raises PlanError for a contrast whose sides are not both arms of this plan.
        """
        arms = {arm.id: arm for arm in self.expanded()}
        pairs: dict[tuple[str, str], None] = {}
        for arm in arms.values():
            partner = arm.original if arm.replica > 1 else arm.baseline
            if partner.id in arms and partner.id != arm.id:
                pairs[arm.id, partner.id] = None
        for choice in self.contrasts:
            for pair in _pairs(choice, arms):
                pairs[pair] = None
        return tuple(Contrast(arm=a, against=b) for a, b in pairs)

    def rehearsed(self) -> Plan:
        """The same arms, made small enough for a CPU: one block, 32 tokens, one text window."""
        data = self.model_dump(mode="json")
        data["protocol"] |= {"mode": Mode.REHEARSAL, "iterations": 1, "blocks": 1, "sessions": 1}
        data["protocol"]["stop"] = {"rule": "fixed"}
        warm = {"min_passes": 1, "max_passes": 1, "full_first": False, "output_tokens": 2}
        data["protocol"]["warmup"] |= warm
        for workload in data["workloads"]:
            workload["output_tokens"] = min(workload["output_tokens"], REHEARSAL_TOKENS)
        data["quality"]["max_windows"] = 1
        data.pop("boards", None)
        return Plan.model_validate_json(json.dumps(data))

    def public(self) -> Plan:
        """The plan without the host's paths: what the journal may hold."""
        data = self.model_dump(mode="json")
        data["models"] = [public_reference(model) for model in self.models]
        if self.quality.text != "builtin":
            data["quality"]["text"] = PurePath(self.quality.text).name
        return Plan.model_validate_json(json.dumps(data))

    @property
    def sha256(self) -> str:
        """Hash of the public plan's canonical JSON."""
        return sha256_hex(canonical_json(self.public().model_dump(mode="json")).encode())


def _pairs(choice: ContrastChoice, arms: dict[str, Arm]) -> list[tuple[str, str]]:
    matching = [arm for arm in arms.values() if choice.arm.matches(arm)]
    pairs = [(arm.id, arm.changed(choice.against).id) for arm in matching]
    lost = [partner for own, partner in pairs if partner not in arms or partner == own]
    if not pairs or lost:
        raise PlanError(
            f"The contrast {choice.arm.model_dump(mode='json', exclude_none=True)} against "
            f"{choice.against.model_dump(mode='json', exclude_none=True)} does not name two "
            "different arms of this plan.",
            "Name models, precisions and runtimes that the plan lists.",
        )
    return pairs


def _refuse_repeats(kind: str, names: list[str], hint: str = "") -> None:
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise ValueError(f"the same {kind} stands twice: {', '.join(repeated)}{hint}")


def slug(text: str) -> str:
    """Letters, digits, dot and hyphen: safe in a path on any system."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip("-.") or "unnamed"


def model_slug(reference: str) -> str:
    """The name of a model's folder and of its arms, from its public reference."""
    if reference.startswith(HUB_PREFIX):
        return parse_hub(reference).slug
    return slug(reference)


def public_reference(model: str) -> str:
    """A model reference without the host's folders: a local path keeps its last part.

    Raises PlanError for an unknown ``random:`` architecture or a malformed ``hub:`` name.
    """
    if model == EMBEDDED:
        return model
    if model.startswith(HUB_PREFIX):
        return str(parse_hub(model))
    if model.startswith(RANDOM_PREFIX):
        architecture(model.removeprefix(RANDOM_PREFIX))
        return model
    return f"local:{PurePath(model.removeprefix('local:')).name}"


def parse_arm(text: str) -> ArmChoice:
    """``NF4``, ``NF4/eager`` or ``NF4#2`` as a choice.

    Raises ValueError, naming what is known, for an unknown precision or runtime.
    """
    named, _, replica = text.partition("#")
    precision, _, runtime = named.partition("/")
    return ArmChoice(
        precision=Precision(_known("precision", precision, [*Precision])),
        runtime=Runtime(_known("runtime", runtime or Runtime.EAGER, [*Runtime])),
        replica=int(replica or 1),
    )


def _known(kind: str, given: str, known: list[str]) -> str:
    for name in known:
        if name.lower() == given.lower():
            return name
    close = difflib.get_close_matches(given.upper(), known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise ValueError(f"unknown {kind} '{given}' (known: {', '.join(known)}){hint}")
