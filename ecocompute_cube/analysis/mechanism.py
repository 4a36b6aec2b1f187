"""What a decode step should take, from a few figures of board, host and runtime. Modelled.

::

    host      layers · host time of a layer · precision's ratio      eager, loop; none if captured
    board     max(bytes / bandwidth, operations / rate) + layers · gap of a layer
    step      the longer of the two; longer still where that would need more than the power limit
    energy    P_wait · step + bytes · J/byte · precision's ratio + operations · J/operation

P_wait is what a board draws while a process with a context lets it wait between small kernels. For
boards that were measured it, J/byte and the host's time are fitted (``scripts/fit_mechanism.py``);
for others they follow from power limit and bandwidth of the data sheet as they do on the measured
ones. How far off that is, is measured by leaving out boards and sessions, and stands beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ecocompute_cube.analysis.curves import library
from ecocompute_cube.analysis.shapes import GB, weight_bytes

if TYPE_CHECKING:
    from typing import Any

    from ecocompute_cube.analysis.cards import Card
    from ecocompute_cube.analysis.shapes import Shape

MEASURED_CONTEXT: Final = 266  # prompt of 10 and 256 tokens: what every measurement decoded
PRODUCT_SHARE: Final = 0.65  # of the data sheet's FP16 rate: an H200's product reached 645 of 989
_TERA: Final = 1e12

BoundBy = Literal["host", "memory", "compute", "power", "kernels"]


class Board(NamedTuple):
    """Of one kind of board and the hosts it was measured with."""

    wait_w: float
    joule_per_byte: float  #: of FP16 weights, above waiting
    host_s: float  #: of one FP16 layer, launched eagerly
    fitted: bool  #: else by the rule


class Error(NamedTuple):
    """Of a modelled logarithm, on what was left out."""

    log_rms: float
    degrees: int
    half: float  #: of the 95 % range


class Model(NamedTuple):
    """All parameters; those of boards by name."""

    boards: dict[str, Board]
    wait_share: float  #: of the power limit
    byte_share: float  #: J/byte · bandwidth, of what is left below the power limit
    host_s: float
    host_ratio: dict[str, float]  #: by precision, of a layer's host time
    work_ratio: dict[str, float]  #: by precision, of the energy for a weight
    runtime_host: dict[str, float]  #: of eager's host time; captured ones have none
    layer_gap_s: dict[str, float]  #: of a captured step, by runtime, on the board
    copy_share: float  #: of the data sheet's bandwidth
    sizes_b: tuple[float, ...]  #: the smallest and the largest model of the errors below
    seen: dict[str, Error]  #: of the change, by precision, on a board that was measured
    unseen: dict[str, Error]  #: on one that was not
    seen_level: dict[str, Error]  #: the same of mJ/token
    unseen_level: dict[str, Error]

    def board(self, card: Card, measured_as: str | None = None) -> Board:
        """Fitted, or by the rule; ``measured_as`` names a board that is alike."""
        known = self.boards.get(measured_as or card.name)
        if known is not None:
            return known
        wait = self.wait_share * card.power_limit_w
        per_byte = self.byte_share * (card.power_limit_w - wait) / (card.bandwidth_gb_s * GB)
        return Board(wait, per_byte, self.host_s, fitted=False)


class Step(NamedTuple):
    """One arm; a step makes a token for each row of the batch."""

    step_s: float
    mj_per_token: float
    tokens_per_s: float  #: of all rows
    watts: float
    bound_by: BoundBy


def model() -> Model:
    """The packaged parameters."""
    global _MODEL  # noqa: PLW0603 (read once; a call of functools.cache costs a query more)
    if _MODEL is None:
        _MODEL = read_model(library().mechanism)
    return _MODEL


_MODEL: Model | None = None


def read_model(found: dict[str, Any]) -> Model:
    """From its document."""
    errors = ("seen", "unseen", "seen_level", "unseen_level")
    return Model(
        **{
            **found,
            "boards": {
                name: Board(each[0], each[1], each[2], fitted=True)
                for name, each in found["boards"].items()
            },
            **{
                name: {precision: Error(*each) for precision, each in found[name].items()}
                for name in errors
            },
        }
    )


def models(by: Model, precision: str, runtime: str) -> bool:
    """Whether there are figures for an arm."""
    known = runtime in by.runtime_host or runtime in by.layer_gap_s
    return known and precision in by.host_ratio


def step(  # noqa: PLR0913 (what a step depends on)
    by: Model,
    board: Board,
    card: Card,
    like: Shape,
    precision: str,
    runtime: str,
    *,
    batch: int = 1,
    context: int = MEASURED_CONTEXT,
) -> Step:
    """What one step of an arm takes. Raises KeyError for an arm without figures."""
    params = GB * like.params_b
    cache = batch * like.cache_bytes * context
    size = weight_bytes(like, precision) + cache
    flop = 2 * params * batch
    memory_s = size / (card.bandwidth_gb_s * GB * by.copy_share)
    compute_s = flop / (card.fp16_tflops * _TERA * PRODUCT_SHARE)
    busy_s = max(memory_s, compute_s)
    bound: BoundBy = "memory" if memory_s >= compute_s else "compute"
    gap_s = by.layer_gap_s.get(runtime)
    if gap_s is None:
        host_s = like.layers * board.host_s * by.host_ratio[precision] * by.runtime_host[runtime]
        if host_s > busy_s:
            busy_s, bound = host_s, "host"
    else:
        gaps_s = like.layers * gap_s
        bound = "kernels" if gaps_s > busy_s else bound
        busy_s += gaps_s
    room_w = card.power_limit_w - board.wait_w
    work_j = board.joule_per_byte * (2 * params * by.work_ratio[precision] + cache)
    work_j += 2 * params * (batch - 1) * room_w / (card.fp16_tflops * _TERA * PRODUCT_SHARE)
    if work_j > room_w * busy_s:
        busy_s, bound = work_j / room_w, "power"
    energy_j = board.wait_w * busy_s + work_j
    return Step(busy_s, 1e3 * energy_j / batch, batch / busy_s, energy_j / busy_s, bound)
