"""Choosing a board and reading it, through NVML. Every call's return code is looked at."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ecocompute_cube.device.base import Clock, SystemClock
from ecocompute_cube.device.binding import (
    FIELD_AVERAGE,
    FIELD_INSTANT,
    REHEARSE,
    Nvml,
    field_value,
    in_watts,
    nvidias_binding,
)
from ecocompute_cube.device.capabilities import capabilities_of, event_reasons, virtualization
from ecocompute_cube.device.drain import Sample
from ecocompute_cube.device.faults import start_fault
from ecocompute_cube.device.lock import Claim, claim
from ecocompute_cube.device.neighbours import (
    foreign_processes,
    graphics_processes,
    hidden_processes,
    utilization_pct,
)
from ecocompute_cube.device.refusals import refusal
from ecocompute_cube.device.together import check_enough, take_together
from ecocompute_cube.device.visible import Candidate, Seen, candidates
from ecocompute_cube.errors import BoardBusy, NoDevice, NoGpu
from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeStr, present, sha256_hex
from ecocompute_cube.model.readings import (
    Board,
    PowerKind,
    Telemetry,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ecocompute_cube.model.capabilities import Capabilities


@contextmanager
def _nvml(environment: Mapping[str, str], root: Path) -> Iterator[Nvml]:
    """NVML initialised; raises NvmlMissing, DriverMismatch or NoDevice when it cannot be."""
    library = Nvml(nvidias_binding())
    library.start(lambda code: start_fault(code, root, environment))
    try:
        yield library
    finally:
        library.end()


class Chosen(NamedTuple):
    """The board of this run, held against other runs, and what must be said about the choice."""

    uuid: str
    remark: str | None
    claim: Claim


def choose_board(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Chosen:
    """The first free board that CUDA_VISIBLE_DEVICES lets this process see, locked below ``root``.

    Raises NoGpu when it lets none be seen or names one that is not there; BoardBusy when others
    have what it names, or all there is; MigSlice, VirtualGpu, IntegratedBoard, NoPowerReading or
    NoDevice for a board that cannot be measured.
    """
    with _nvml(environment, root) as library:
        return _first_free(library, _candidates(library, environment), root)


def choose_boards(
    count: int, environment: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> tuple[Chosen, ...]:
    """As many boards, the first ones that may be seen and had; every one of them locked, or none.

    Raises TooFewBoards, and as choose_board does.
    """
    if count == 1:
        return (choose_board(environment, root),)
    with _nvml(environment, root) as library:
        possible = _candidates(library, environment, count)
        several = len(possible) > count
        held = take_together(possible, count, lambda board: _taken(library, board, root, several))
    return tuple(Chosen(board.uuid, board.remark, claimed) for board, claimed in held)


@contextmanager
def driver_kept() -> Iterator[None]:
    """Hold NVML meanwhile: without persistence each new start of it may take seconds."""
    with ExitStack() as held:
        with suppress(NoDevice):
            library = Nvml(nvidias_binding())
            library.start()
            held.callback(library.end)
        yield


def require_boards(
    count: int, environment: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> None:
    """See that there are boards to be had, and hold none. Raises as choose_boards does."""
    for chosen in choose_boards(count, environment, root):
        chosen.claim.close()


class Surveyed(NamedTuple):
    """A board that this process may see, and why a run would not get it now."""

    board: Candidate
    refusal: NoDevice | None
    trouble: str | None  #: why it could not be locked


def survey_boards(
    environment: Mapping[str, str] = os.environ, root: Path = Path("/"), count: int = 1
) -> tuple[Surveyed, ...]:
    """What a run would find, each board held for no longer than it takes to look.

    Raises as choose_boards does, but not for boards that are there and cannot be had.
    """
    with _nvml(environment, root) as library:
        possible = _candidates(library, environment, count)
        several = len(possible) > count
        return tuple(_surveyed(library, each, root, several) for each in possible)


def _surveyed(library: Nvml, board: Candidate, root: Path, several: bool) -> Surveyed:
    try:
        held = _taken(library, board, root, several)
    except NoDevice as refused:
        return Surveyed(board, refused, None)
    trouble = held.trouble
    held.close()
    return Surveyed(board, None, trouble)


def _candidates(
    library: Nvml, environment: Mapping[str, str], count: int = 1
) -> tuple[Candidate, ...]:
    boards = _boards(library)
    if not boards:
        raise NoGpu("NVML finds no NVIDIA board on this machine.", REHEARSE)
    found = candidates(boards, environment, count)
    check_enough(found, count, environment, len(boards))
    return found


def _first_free(library: Nvml, possible: Sequence[Candidate], root: Path) -> Chosen:
    refusals: list[NoDevice] = []
    for each in possible:
        try:
            held = _taken(library, each, root, len(possible) > 1)
            return Chosen(each.uuid, each.remark, held)
        except NoDevice as refused:
            refusals.append(refused)
    raise none_free(refusals)


def _taken(library: Nvml, board: Candidate, root: Path, several: bool) -> Claim:
    """Hold a board. Raises NoDevice when it cannot be measured or others have it."""
    handle = library.ask(lambda n: n.nvmlDeviceGetHandleByUUID(board.uuid))
    unfit = refusal(library, handle, board.name) if present(handle) else None
    if unfit is not None:
        raise unfit
    held = _claimed(board, root)
    if several and (users := _users(library, board.uuid)):
        held.close()
        raise _in_use(board, users)
    return held


def _claimed(board: Candidate, root: Path) -> Claim:
    held = claim(board.uuid, root)
    if held is None:
        raise BoardBusy(
            f"Board {board.ordinal} ({board.name}) is being measured by another run.",
            "Wait for it, or choose another board with CUDA_VISIBLE_DEVICES.",
        )
    return held


def _users(library: Nvml, uuid: str) -> int:
    """How many processes compute on a board, as far as the driver tells."""
    users = library.running(lambda n: n.nvmlDeviceGetHandleByUUID(uuid))
    return len(users) if present(users) else 0


def _in_use(board: Candidate, users: int) -> BoardBusy:
    return BoardBusy(
        f"Board {board.ordinal} ({board.name}) is in use (compute processes: {users}).",
        "Wait for them, or name the board with CUDA_VISIBLE_DEVICES.",
    )


def none_free(refusals: Sequence[NoDevice]) -> NoDevice:
    """One word for several boards that cannot be had."""
    if len(refusals) == 1 or not any(isinstance(each, BoardBusy) for each in refusals):
        return refusals[0]
    causes = "; ".join(each.cause.rstrip(".") for each in refusals)
    return BoardBusy(
        f"None of {len(refusals)} boards is free: {causes}.",
        "Wait for one of them, or name one with CUDA_VISIBLE_DEVICES.",
    )


def _boards(library: Nvml) -> list[Seen]:
    count = library.ask(lambda n: int(n.nvmlDeviceGetCount()))
    if not present(count):
        raise NoDevice(f"NVML does not count its boards ({count.reason}).", "Check nvidia-smi.")
    return [_seen(library, index) for index in range(count)]


def _seen(library: Nvml, index: int) -> Seen:
    handle = library.ask(lambda n: n.nvmlDeviceGetHandleByIndex(index))
    if isinstance(handle, Absent):
        return Seen(handle, handle)
    return Seen(
        library.text(lambda n: n.nvmlDeviceGetUUID(handle)),
        library.text(lambda n: n.nvmlDeviceGetName(handle)),
    )


class NvmlBoard:
    """One board by UUID, opened for reading. Raises NvmlMissing, NoGpu or NoDevice; then never."""

    def __init__(self, uuid: str, clock: Clock | None = None, root: Path = Path("/")) -> None:
        self._uuid = uuid
        self._hidden = hidden_processes(root)
        self._clock = clock or SystemClock()
        self._nvml = Nvml(nvidias_binding())
        self._nvml.start()
        handle = self._nvml.ask(lambda n: n.nvmlDeviceGetHandleByUUID(uuid))
        if isinstance(handle, Absent):
            self._nvml.end()
            raise NoGpu(
                f"The board chosen for this run cannot be opened ({handle.reason}).",
                "Check that nvidia-smi -L still lists it.",
            )
        self._handle: object = handle
        self.power = self._best_power()  #: what ``power_w`` reads

    def energy_mj(self) -> int | Absent:
        """Millijoules since the driver was loaded (nvmlDeviceGetTotalEnergyConsumption)."""
        return self._nvml.ask(lambda n: int(n.nvmlDeviceGetTotalEnergyConsumption(self._handle)))

    def power_w(self) -> MaybeFloat:
        """Watts, by the best kind this board offers."""
        return self._read_power(self.power)

    def _best_power(self) -> PowerKind:
        for kind in (PowerKind.INSTANT, PowerKind.AVERAGE, PowerKind.USAGE):
            if present(self._read_power(kind)):
                return kind
        return PowerKind.NONE

    def _read_power(self, kind: PowerKind) -> MaybeFloat:
        if kind is PowerKind.INSTANT:
            return self._nvml.field_w(self._handle, FIELD_INSTANT)
        if kind is PowerKind.AVERAGE:
            return self._nvml.field_w(self._handle, FIELD_AVERAGE)
        if kind is PowerKind.USAGE:
            return self._nvml.watts(lambda n: n.nvmlDeviceGetPowerUsage(self._handle))
        return Absent(reason="this board reports no power")

    def power_samples(self, since_us: int) -> list[Sample] | Absent:
        """The driver's own samples of total power after a moment of the wall clock."""
        answer = self._nvml.ask(lambda n: _samples(n, self._handle, since_us))
        if isinstance(answer, Absent):
            return answer
        kind, samples = answer
        read = ((each.timeStamp, field_value(kind, each.sampleValue)) for each in samples)
        watts = ((at, in_watts(value)) for at, value in read if present(value))
        return [Sample(int(at), power) for at, power in watts if present(power)]

    def capabilities(self) -> Capabilities:
        """Everything that NVML offers on this board, asked now."""
        return capabilities_of(self._nvml, self._handle, self._hidden)

    def telemetry(self, own_processes: frozenset[int]) -> Telemetry:
        """What the board says of itself now."""
        number, handle = self._nvml.number, self._handle
        return Telemetry(
            at_ns=self._clock.now_ns(),
            temperature_c=number(
                lambda n: n.nvmlDeviceGetTemperature(handle, n.NVML_TEMPERATURE_GPU)
            ),
            power_w=self.power_w(),
            sm_clock_mhz=number(lambda n: n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_SM)),
            memory_clock_mhz=number(lambda n: n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_MEM)),
            event_reasons=event_reasons(self._nvml, handle),
            foreign_processes=foreign_processes(self._nvml, handle, own_processes, self._hidden),
            graphics_processes=graphics_processes(self._nvml, handle, self._hidden),
            utilization_pct=utilization_pct(self._nvml, handle),
        )

    def board(self) -> Board:
        """What the board says of itself, the UUID hashed. Raises NoDevice without a memory size."""
        nvml, handle = self._nvml, self._handle
        counter = self.energy_mj()
        capability = self._capability()
        return Board(
            name=_or_unknown(nvml.text(lambda n: n.nvmlDeviceGetName(handle))),
            uuid_sha256=sha256_hex(self._uuid.encode()),
            architecture=architecture(*capability) if present(capability) else "unknown",
            compute_capability=_or_unknown(
                ".".join(map(str, capability)) if present(capability) else capability
            ),
            memory_mib=self._memory_mib(),
            driver=_or_unknown(nvml.text(lambda n: n.nvmlSystemGetDriverVersion())),
            nvml=_or_unknown(nvml.text(lambda n: n.nvmlSystemGetNVMLVersion())),
            energy_counter=True if present(counter) else counter,
            power=self.power,
            power_limit_w=nvml.watts(lambda n: n.nvmlDeviceGetEnforcedPowerLimit(handle)),
            power_limit_default_w=nvml.watts(
                lambda n: n.nvmlDeviceGetPowerManagementDefaultLimit(handle)
            ),
            persistence=nvml.flag(lambda n: n.nvmlDeviceGetPersistenceMode(handle)),
            mig=nvml.flag(lambda n: n.nvmlDeviceGetMigMode(handle)[0]),
            ecc=nvml.flag(lambda n: n.nvmlDeviceGetEccMode(handle)[0]),
            virtualization=virtualization(nvml, handle),
        )

    def _capability(self) -> tuple[int, int] | Absent:
        return self._nvml.ask(lambda n: n.nvmlDeviceGetCudaComputeCapability(self._handle))

    def _memory_mib(self) -> int:
        total = self._nvml.ask(lambda n: int(n.nvmlDeviceGetMemoryInfo(self._handle).total))
        if not present(total):
            raise NoDevice(
                f"The board does not say how much memory it has ({total.reason}).",
                "Check nvidia-smi; boards that share the host's memory are not supported yet.",
            )
        return total // 2**20

    def close(self) -> None:
        """Let go of NVML."""
        self._nvml.end()


def _samples(n: Any, board: object, since_us: int) -> tuple[int, list[Any]]:  # noqa: ANN401 (the binding and its structures)
    """Value type and samples; none where none is new."""
    try:
        kind, samples = n.nvmlDeviceGetSamples(board, n.NVML_TOTAL_POWER_SAMPLES, since_us)
    except n.NVMLError_NotFound:
        return 0, []
    return int(kind), samples


def _or_unknown(answer: MaybeStr) -> str:
    """For what the journal holds as a plain text: the reason stands in the text's place."""
    return answer if present(answer) else f"unknown ({answer.reason})"


def architecture(major: int, minor: int) -> str:
    """NVIDIA's architecture name by CUDA compute capability (CUDA programming guide)."""
    if (major, minor) == (8, 9):
        return "ada"
    if major == 7:  # noqa: PLR2004 (7.0 and 7.2 are Volta, 7.5 is Turing)
        return "turing" if minor >= 5 else "volta"  # noqa: PLR2004
    names = {5: "maxwell", 6: "pascal", 8: "ampere", 9: "hopper", 10: "blackwell"}
    return {**names, 11: "blackwell", 12: "blackwell"}.get(major, f"sm_{major}{minor}")
