"""A runtime without a model: it takes known time and known power on a scripted board."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.backends.base import Kernel, Kernels, Ledger, Profile, Scores, Session
from ecocompute_cube.backends.precision import RECIPES
from ecocompute_cube.backends.prompts import byte_ids, cut_prompts, ids_sha256
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import Absent, sha256_hex
from ecocompute_cube.model.cost import StepCost, Work
from ecocompute_cube.model.journal import Certificate, LedgerRow
from ecocompute_cube.model.plan import Phase, Precision

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm


PREFILL_SHARE: Final = 0.1  #: of a token's time, that a token of a prompt takes


class FakeBackend:
    """Each precision draws ``power_w`` for ``token_s`` a step; both are the known truth.

    ``spread`` gives a factor on the power, anew for each visit of an arm. ``calibration`` says of
    ``copy`` and ``product`` what a launch amounts to, how long it takes and what it draws.
    """

    def __init__(
        self,
        work: Callable[[float, float], None],
        costs: Mapping[str, tuple[float, float]],
        failures: Mapping[str, ArmFailed] | None = None,
        spread: Callable[[], float] = lambda: 1.0,
        calibration: Mapping[str, tuple[int, float, float]] | None = None,
        devices: tuple[str, ...] = ("scripted",),
    ) -> None:
        self._work = work
        self._costs = costs
        self._failures = failures or {}
        self._spread = spread
        self._calibration = calibration
        self._devices = devices

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        """A session, or the failure scripted for this precision."""
        del folder
        if arm.precision in self._failures:
            raise self._failures[arm.precision]
        token_s, power_w = self._costs[arm.precision]
        session = FakeSession(arm, self._work, token_s, power_w, manifest.max_context, self._spread)
        session.devices = self._devices
        return session

    def kernels(self) -> Kernels | Absent:
        """As scripted."""
        if self._calibration is None:
            return Absent(reason="nothing is scripted to calibrate with")
        return Kernels(
            copy=self._kernel(*self._calibration["copy"]),
            product=self._kernel(*self._calibration["product"]),
            sync=lambda: None,
            cache_bytes=Absent(reason="no cache"),
        )

    def _kernel(self, amount: int, took_s: float, power_w: float) -> Kernel:
        return Kernel(amount, lambda: self._work(took_s, power_w))


class FakeSession:
    """Pretends to decode."""

    def __init__(
        self,
        arm: Arm,
        work: Callable[[float, float], None],
        token_s: float,
        power_w: float,
        max_context: int | None = None,
        spread: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self._arm = arm
        self._work = work
        self._token_s = token_s
        self._power_w = power_w
        self._max_context = max_context
        self._spread = spread
        self._factor = spread()
        self.devices: tuple[str, ...] = ("scripted",)  #: that hold a like share of the weights each

    def certificate(self) -> Certificate:
        """As named: there is nothing to be wrong about."""
        recipe = RECIPES[self._arm.precision]
        share = int(125 * recipe.bits) // len(self.devices)
        return Certificate(
            linear_weights={recipe.held or "NF4": 1_000},
            share_as_named=1.0,
            other_weights={},
            compute_dtype=recipe.dtype or "float16",
            settings=dict(recipe.found),
            weight_bytes=int(125 * recipe.bits),
            devices=self.devices,
            device_bytes=dict.fromkeys(self.devices, share) if len(self.devices) > 1 else {},
            allocated_bytes=Absent(reason="not on a board"),
            torch_cuda=Absent(reason="no torch"),
            kernels="none",
            probe_error=Absent(reason="no weights"),
            decoder={"decoding": "scripted"},
        )

    def step(self) -> StepCost:
        """One layer that reads its weights and multiplies with each once."""
        weights = self.certificate().weight_bytes
        return StepCost(
            layers=1, weights=Work(bytes=weights, flop=2_000), position=Work(bytes=0, flop=0)
        )

    def prepare(self, text: str, iterations: int) -> str:
        """Cut prompts as a real session does."""
        return ids_sha256(cut_prompts(byte_ids(text), self._arm.workload, iterations))

    def renew(self) -> None:
        """Nothing of it ages."""

    def generate(self, iteration: int, output_tokens: int) -> object:
        """Take the scripted time and power; the output is its own length."""
        del iteration
        prompt = self._arm.workload.phase is Phase.PREFILL
        share = PREFILL_SHARE * self._arm.workload.prompt_tokens if prompt else output_tokens
        self._work(share * self._token_s, self._power_w * self._factor)
        return output_tokens

    def sync(self) -> None:
        """Nothing is asynchronous here."""

    def ledger(self, outputs: list[object]) -> Ledger:
        """All rows run to their length; the visit's work is over."""
        self._factor = self._spread()
        workload = self._arm.workload
        rows = LedgerRow(
            rows=len(outputs) * workload.batch,
            prompt_tokens=workload.prompt_tokens,
            padding_tokens=0,
            output_tokens=workload.generated_tokens,
            stop="length",
        )
        return Ledger((rows,), sha256_hex(repr(outputs).encode()), self._ids())

    def _ids(self) -> tuple[int, ...]:
        """As FP16's but for the last, where the precision is another."""
        rest = (1,) * (self._arm.workload.generated_tokens - 1)
        return (*rest, int(self._arm.precision is not Precision.FP16))

    def score(self, text: str, window_tokens: int, max_windows: int | None) -> Scores:
        """Two nats a byte."""
        size = min(window_tokens, self._max_context or window_tokens)
        count = min(len(text), size * (max_windows or 1)) - 1
        return Scores((2.0 * count,), (count,), size)

    def profile(self) -> Profile:
        """A kernel a token, busy all the time."""
        return Profile(1, 1, self._token_s)

    def close(self) -> None:
        """Nothing to free."""
