"""What the boards of a run do not tell apart, from what they offered when a session opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import present
from ecocompute_cube.model.claims import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.capabilities import Capabilities
    from ecocompute_cube.model.plan import Arm
    from ecocompute_cube.report.run import RunEvidence

_TAKEN_MIB: Final = 100  # less than any CUDA context holds
_LENT: Final = frozenset({"host-vgpu", "host-vsga"})


def board_findings(run: RunEvidence, arm: Arm) -> tuple[Finding, ...]:
    """Findings about the boards that one arm was measured on; early journals give none."""
    measured_in = {window.fact.session for window in run.windows[arm.id]}
    sessions = [s for s in run.known.sessions if s.session in measured_in]
    known = [
        each
        for session in sessions
        for each in (session.capabilities, *(other.capabilities for other in session.others))
        if present(each)
    ]
    return (
        *_module_scope(arm, known),
        *_virtual_guests(arm, known),
        *_display_server(arm, known),
        *_memory_taken(arm, known),
    )


def _module_scope(arm: Arm, boards: Sequence[Capabilities]) -> tuple[Finding, ...]:
    if not any(board.module_only for board in boards):
        return ()
    return (
        Finding(
            code="module_scope",
            subject=arm.id,
            cause="The board tells power of its whole module alone (GPU, CPU and memory): what its "
            "energy covers cannot be told.",
            fix="Compare arms on this board only; do not rank it with others.",
            effect="lowers the tier",
        ),
    )


def _virtual_guests(arm: Arm, boards: Sequence[Capabilities]) -> tuple[Finding, ...]:
    if not _LENT & {b.virtualization for b in boards if present(b.virtualization)}:
        return ()
    return (
        Finding(
            code="virtual_guests",
            subject=arm.id,
            cause="The board is lent to virtual machines, whose work on it is not listed.",
            fix="Stop the guests, or take the board out of vGPU mode.",
            effect="lowers the tier",
        ),
    )


def _display_server(arm: Arm, boards: Sequence[Capabilities]) -> tuple[Finding, ...]:
    drawing = [b.graphics_processes for b in boards if present(b.graphics_processes)]
    if not any(drawing):
        return ()
    return (
        Finding(
            code="display_server",
            subject=arm.id,
            cause="A display server drew on the board: its energy is in every window, and need not "
            "be the same in each.",
            fix="Measure without a display (sudo systemctl isolate multi-user.target).",
            effect="lowers the tier",
        ),
    )


def _memory_taken(arm: Arm, boards: Sequence[Capabilities]) -> tuple[Finding, ...]:
    """Of processes that no list shows; those that one shows have findings of their own."""
    hidden = [b for b in boards if not present(b.compute_processes) and not _draws(b)]
    taken = max((b.memory_used_mib for b in hidden if present(b.memory_used_mib)), default=0)
    if taken < _TAKEN_MIB:
        return ()
    return (
        Finding(
            code="memory_taken",
            subject=arm.id,
            cause=f"{taken} MiB of the board's memory were taken before this run loaded anything, "
            "by processes that are not shown here: somebody else uses the board.",
            fix="Look for them with nvidia-smi outside the container, and measure again.",
            effect="lowers the tier",
        ),
    )


def _draws(board: Capabilities) -> bool:
    return present(board.graphics_processes) and board.graphics_processes > 0
