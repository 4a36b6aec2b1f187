"""The arms that are loaded, each behind a link of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.units import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ecocompute_cube.device.base import Clock
    from ecocompute_cube.engine.executor import ArmLink, Executor


class Links:
    """Opened when an arm is first visited, kept until it is dropped."""

    def __init__(self, executor: Executor, clock: Clock) -> None:
        self._executor = executor
        self._clock = clock
        self._open: dict[str, ArmLink] = {}
        self.loading_s = 0.0  #: that opening took so far

    @property
    def arms(self) -> Collection[str]:
        """The arms that are loaded."""
        return self._open.keys()

    @property
    def pids(self) -> tuple[int, ...]:
        """Their processes."""
        return tuple(link.pid for link in self._open.values())

    def opened(self, arm: str, load: Callable[[ArmLink], None]) -> ArmLink:
        """The arm's link; a new one is given to ``load`` first."""
        if arm not in self._open:
            start = self._clock.now_ns()
            try:
                self._open[arm] = self._executor.start(arm)
                load(self._open[arm])
            finally:
                self.loading_s += seconds(self._clock.now_ns() - start)
        return self._open[arm]

    def drop(self, arm: str) -> None:
        """Unload an arm, if it is loaded."""
        link = self._open.pop(arm, None)
        if link is not None:
            link.close(patient=True)

    def end(self, *, patient: bool) -> None:
        """Unload them all."""
        for link in self._open.values():
            link.close(patient=patient)
        self._open.clear()
