"""What each board of a split model took of an arm's energy."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ecocompute_cube.model.base import Absent, MaybeInt, present
from ecocompute_cube.model.energy import BoardEnergy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.analysis.energy import WindowEnergy
    from ecocompute_cube.analysis.evidence import Evidence
    from ecocompute_cube.analysis.gates import Judged
    from ecocompute_cube.model.plan import Arm

_Part = tuple[int, str]  #: a board's place in its session, and the hash of its UUID


def board_energies(known: Evidence, arm: Arm, windows: Sequence[Judged]) -> tuple[BoardEnergy, ...]:
    """Each board's sums over these windows, in the order of the layers; none of a single board."""
    sessions = {session.session: session for session in known.sessions}
    energies: dict[_Part, list[WindowEnergy]] = defaultdict(list)
    work_s: dict[_Part, float] = defaultdict(float)
    for window in windows:
        boards = sessions[window.fact.session].boards
        for place, part in enumerate(window.parts):
            if present(part.energy):
                key = place, boards[place].uuid_sha256
                energies[key].append(part.energy)
                work_s[key] += part.work_s
    held = _weight_bytes(known, arm)
    return tuple(
        BoardEnergy(
            board_sha256=key[1],
            energy_joules=sum(each.energy for each in energies[key]),
            reading_bound_joules=(
                sum(each.low for each in energies[key]),
                sum(each.high for each in energies[key]),
            ),
            avg_power_watts=sum(each.energy for each in energies[key]) / work_s[key],
            weight_bytes=_at(held, key[0]),
        )
        for key in sorted(energies)
    )


def _weight_bytes(known: Evidence, arm: Arm) -> list[int]:
    """By place: ``cuda:2`` comes before ``cuda:10``."""
    ready = known.ready.get(arm.id, ())
    held = ready[0].certificate.device_bytes if ready else {}
    return [held[device] for device in sorted(held, key=lambda name: (len(name), name))]


def _at(held: Sequence[int], place: int) -> MaybeInt:
    return held[place] if place < len(held) else Absent(reason="the certificate does not tell")
