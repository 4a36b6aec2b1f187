"""``ecocompute plan``: what a plan will do and need, before anything loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.download import model_folder, read_manifest
from ecocompute_cube.download.checkpoint import describe
from ecocompute_cube.download.folder import MANIFEST, download_command
from ecocompute_cube.download.local import check_local
from ecocompute_cube.engine.predict import Prediction, Size, check_context, predict, size_of
from ecocompute_cube.engine.schedule import Block, block_order, groups
from ecocompute_cube.errors import ModelCorrupt, ModelMissing
from ecocompute_cube.model.architectures import architecture
from ecocompute_cube.model.base import printable
from ecocompute_cube.model.hub_reference import HUB_PREFIX
from ecocompute_cube.model.plan import EMBEDDED, RANDOM_PREFIX, Mode, public_reference
from ecocompute_cube.model.stop import AdaptiveStop
from ecocompute_cube.units import gib

if TYPE_CHECKING:
    from ecocompute_cube.model.plan import Plan, Protocol


_EMBEDDED_LIKE: Final = "smollm2-135m"
_REHEARSAL: Final = (
    "a rehearsal: a minute or two on the CPU with a small model; no energy is measured."
)


class Forecast(NamedTuple):
    """A plan with its order and rough figures."""

    plan: Plan
    blocks: tuple[Block, ...]  #: of one session
    prediction: Prediction
    models_bytes: int  #: on disk, all models together

    def as_json(self) -> dict[str, object]:
        """For programs: seconds and bytes."""
        return {
            "format": "ecocompute-forecast/1",
            "plan": self.plan.name,
            "plan_sha256": self.plan.sha256,
            "blocks": [block._asdict() for block in self.blocks],
            "predicted": {**self.prediction._asdict(), "models_bytes": self.models_bytes},
        }

    def text(self) -> str:
        """For people."""
        protocol, guess = self.plan.protocol, self.prediction
        lines = [
            f"plan {printable(self.plan.name)}, {protocol.mode}, {protocol.sessions} session(s)",
            "",
        ]
        lines += [_arm_line(arm, guess, protocol.mode) for arm in guess.arm_s]
        lines += _rule(protocol)
        lines += ["", "order in the first session:"]
        least = protocol.least_blocks
        lines += [
            f"  block {b.block + 1}{'' if b.block < least else ', if needed'}: {', '.join(b.order)}"
            for b in self.blocks
        ]
        if protocol.mode is Mode.REHEARSAL:
            return "\n".join([*lines, "", _REHEARSAL]) + "\n"
        lines += [
            "",
            f"about {_minutes(guess)} minutes, as fast as the host drives the board: these "
            "figures are",
            "from one H200 with 16 Xeon cores, and another host may take half or twice as long;",
            *_pauses(protocol),
            f"board memory {gib(guess.together_bytes):.1f} GiB with all arms loaded, "
            f"{gib(max(guess.memory_bytes.values())):.1f} GiB one at a time{_over(self.plan)};",
            f"disk {gib(self.models_bytes):.2f} GiB for models, "
            f"{guess.disk_bytes / 1e6:.1f} MB for results.",
        ]
        return "\n".join(lines) + "\n"


def _rule(protocol: Protocol) -> list[str]:
    """How many blocks there will be, where results decide it."""
    stop = protocol.stop
    if not isinstance(stop, AdaptiveStop):
        return []
    return [
        "",
        f"{stop.min_blocks} to {stop.max_blocks} blocks a session: until half of every contrast's "
        f"interval is {stop.half_width_pct:g} % of its ratio or less",
    ]


def _pauses(protocol: Protocol) -> list[str]:
    """What nobody can foresee."""
    if protocol.cooldown is None:
        return []
    most_s = protocol.cooldown.max_s
    return [f"pauses to cool down come on top, of {most_s:.0f} s a visit at most;"]


def _over(plan: Plan) -> str:
    return f", over {plan.boards} boards" if plan.boards > 1 else ""


def _minutes(guess: Prediction) -> str:
    least, most = f"{guess.least_s / 60:.0f}", f"{guess.total_s / 60:.0f}"
    return most if least == most else f"{least} to {most}"


def _arm_line(arm: str, guess: Prediction, mode: Mode) -> str:
    if mode is Mode.REHEARSAL:
        return f"  {arm}"
    return (
        f"  {arm}: {guess.arm_s[arm] / 60:.1f} min a visit, "
        f"{guess.load_s[arm]:.0f} s to load, {gib(guess.memory_bytes[arm]):.1f} GiB"
    )


class _Known(NamedTuple):
    """What is known of a model before it loads, or even before it is downloaded."""

    size: Size
    disk_bytes: int
    max_context: int


def forecast(plan: Plan, models_dir: Path) -> Forecast:
    """What ``plan`` will take; of a rehearsal, what will run.

    Raises ModelError for a local model that cannot be taken and for one of the hub that is not
    downloaded, PlanError for rows that are longer than a model's context.
    """
    known = {public_reference(model): _known(model, models_dir) for model in plan.models}
    check_context(plan, {reference: model.max_context for reference, model in known.items()})
    if plan.protocol.mode is Mode.REHEARSAL:
        plan = plan.rehearsed()
    blocks = tuple(
        block_order(plan, arms, 0, group, block)
        for block in range(plan.protocol.most_blocks)
        for group, arms in enumerate(groups(plan))
    )
    prediction = predict(plan, {reference: model.size for reference, model in known.items()})
    return Forecast(plan, blocks, prediction, sum(model.disk_bytes for model in known.values()))


def to_download(plan: Plan, models_dir: Path) -> bool:
    """Whether any of the plan's models is not there yet."""
    folders = (model_folder(public_reference(model), models_dir) for model in plan.models)
    return not all((folder / MANIFEST).is_file() for folder in folders)


def _known(model: str, models_dir: Path) -> _Known:
    try:
        manifest = read_manifest(model_folder(public_reference(model), models_dir))
    except ModelMissing:
        return _foreseen(model, models_dir)
    except ModelCorrupt:
        if model.startswith(HUB_PREFIX):
            raise
        return _foreseen(model, models_dir)
    return _Known(size_of(manifest), manifest.size_bytes, manifest.max_context)


def _foreseen(model: str, models_dir: Path) -> _Known:
    """A model that is not downloaded yet; on disk it will be FP16."""
    if model.startswith(HUB_PREFIX):
        raise ModelMissing(
            f"{public_reference(model)} is not downloaded yet, and only the hub knows its size.",
            f"Run {download_command(models_dir)} first.",
        )
    if model == EMBEDDED or model.startswith(RANDOM_PREFIX):
        name = _EMBEDDED_LIKE if model == EMBEDDED else model.removeprefix(RANDOM_PREFIX)
        known = architecture(name)
        shape = known.shape
        layers, hidden = int(shape["num_hidden_layers"]), int(shape["hidden_size"])
        size = Size(known.parameters, layers, hidden, int(shape["vocab_size"]))
        return _Known(size, 2 * size.parameters, int(shape["max_position_embeddings"]))
    folder = Path(model.removeprefix("local:"))
    check_local(folder)
    facts = describe(folder)
    size = Size(facts.parameters, facts.layers, facts.hidden_size, facts.vocab_size)
    return _Known(size, 2 * size.parameters, facts.max_context)
