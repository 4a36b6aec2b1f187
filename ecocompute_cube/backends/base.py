"""The seam between the measuring code and a runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ecocompute_cube.model.base import Absent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ecocompute_cube.model.base import MaybeFloat, MaybeInt
    from ecocompute_cube.model.cost import StepCost
    from ecocompute_cube.model.journal import Certificate, LedgerRow
    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm


class Ledger(NamedTuple):
    """What a window produced, counted from the ids that came back."""

    rows: tuple[LedgerRow, ...]
    output_sha256: str
    first_ids: tuple[int, ...]  #: output ids of the first generation's first row


class Scores(NamedTuple):
    """Teacher-forced scores of a text: summed negative log-likelihood (nats) and count a window."""

    nll: tuple[float, ...]
    scored_tokens: tuple[int, ...]
    window_tokens: (
        int  #: tokens a window holds, at most: what was asked for, or the model's context
    )


class Profile(NamedTuple):
    """What a profiler saw of one generation."""

    tokens: int  #: output tokens a row
    launches: MaybeInt  #: kernels
    busy_s: MaybeFloat  #: time in which at least one of them ran
    #: the same of the prompt's pass alone, where it is another share of a window's generation
    prompt_launches: MaybeInt = Absent(reason="not taken apart")
    prompt_busy_s: MaybeFloat = Absent(reason="not taken apart")


class Kernel(NamedTuple):
    """Something to launch again and again."""

    amount: int  #: bytes read and written, or operations, of one launch
    launch: Callable[[], None]  #: asynchronous


class Kernels(NamedTuple):
    """What a board is calibrated with."""

    copy: Kernel
    product: Kernel
    sync: Callable[[], None]
    cache_bytes: MaybeInt  #: of the board's last cache


class Session(Protocol):
    """One arm, loaded and ready to work. Raises ArmFailed when the arm cannot go on."""

    def certificate(self) -> Certificate:
        """What is really loaded."""

    def step(self) -> StepCost:
        """What each decode step has to do."""

    def prepare(self, text: str, iterations: int) -> str:
        """Cut prompts for ``iterations`` generations from ``text``; their SHA-256."""

    def renew(self) -> None:
        """Before each visit: as fresh as when prepared, whatever other processes did meanwhile."""

    def generate(self, iteration: int, output_tokens: int) -> object:
        """One greedy generation of exactly ``output_tokens`` a row; the ids, not looked at.

        In phase decode the output of the first prompt, whose own pass lies behind.
        ``iteration`` counts from zero; prompts repeat when there are fewer of them.
        """

    def sync(self) -> None:
        """Wait until the board has finished everything asked of it."""

    def ledger(self, outputs: list[object]) -> Ledger:
        """Count the ids of these generations, row by row."""

    def score(self, text: str, window_tokens: int, max_windows: int | None) -> Scores:
        """Perplexity scores over non-overlapping windows of ``text``, no special tokens."""

    def profile(self) -> Profile:
        """Generate once more under a profiler. Nothing may be measured in this process after."""

    def close(self) -> None:
        """Free the model."""


class InferenceBackend(Protocol):
    """A runtime: turns an arm and a model folder into a session."""

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        """Load the model as the arm says. Raises ArmFailed if this host cannot."""

    def kernels(self) -> Kernels | Absent:
        """What this host's board is calibrated with, or why it cannot be."""
