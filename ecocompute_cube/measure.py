"""Measuring a plan from end to end: check, choose the board, walk the schedule, report."""

from __future__ import annotations

import os
import platform
import shutil
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube import __version__
from ecocompute_cube.analysis.cost import board_cost
from ecocompute_cube.device.base import Clock, PowerSource, SystemClock
from ecocompute_cube.device.faults import require_cuda
from ecocompute_cube.device.host import host_facts, package_versions
from ecocompute_cube.device.isolation import isolation
from ecocompute_cube.device.together import check_alike
from ecocompute_cube.download import model_folder, verify
from ecocompute_cube.engine.calibration import Bench, calibration_for
from ecocompute_cube.engine.executor import ChildProcesses, Executor
from ecocompute_cube.engine.folders import FolderLock, new_run, prepare_output, unfinished_run
from ecocompute_cube.engine.home import with_home
from ecocompute_cube.engine.predict import Prediction, check_context, predict, size_of
from ecocompute_cube.engine.progress import Progress, poolable, progress, session_like
from ecocompute_cube.engine.runner import Rig, Runner
from ecocompute_cube.engine.window import measure_tick
from ecocompute_cube.errors import BoardLost, Interrupted, NoDevice, NoPowerReading, PlanError
from ecocompute_cube.model.base import Absent, MaybeFloat, present, sha256_hex
from ecocompute_cube.model.journal import (
    FORMAT,
    OtherBoard,
    Resumed,
    RunOpened,
    SessionOpened,
)
from ecocompute_cube.model.journal_file import JOURNAL_NAME, JournalWriter
from ecocompute_cube.model.plan import Mode
from ecocompute_cube.model.readings import PowerKind, Tick, hottest
from ecocompute_cube.report.recompute import ARMS_FOLDER
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.stopping import look_at
from ecocompute_cube.report.write import ENERGY_NAME, write_energy
from ecocompute_cube.units import nanoseconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecocompute_cube.device.base import Tracer
    from ecocompute_cube.device.lock import Claim
    from ecocompute_cube.model.capabilities import Capabilities
    from ecocompute_cube.model.cost import Calibrated
    from ecocompute_cube.model.journal import Fact, Isolation
    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Plan
    from ecocompute_cube.model.readings import Board

_BACKEND: Final = "ecocompute_cube.backends.transformers:TransformersBackend"
_MEMORY_SHARE: Final = 0.9  # of the board, for arms side by side
_BUILTIN_TEXT: Final = "eval_text.txt"


class Equipment(NamedTuple):
    """What a measurement is made with: boards, where arms run, and time."""

    source: PowerSource | None
    executor: Callable[[Path], Executor]  #: given the run folder
    tracers: tuple[Tracer, ...]  #: one a board
    clock: Clock
    memory_bytes: int  #: what arms may share
    others: tuple[PowerSource, ...] = ()  #: the further boards that models are split over
    remarks: tuple[str, ...] = ()  #: what must be said about the choice of the boards
    claims: tuple[Claim, ...] = ()  #: the boards, held against other runs
    root: Path = Path("/")  #: of the machine, for facts about it
    held: ExitStack | None = None  #: what must be let go of afterwards

    @property
    def sources(self) -> tuple[PowerSource, ...]:
        """Every board; none in a rehearsal."""
        return () if self.source is None else (self.source, *self.others)

    def close(self) -> None:
        """Let go of the boards and of what was made for the run."""
        try:
            for source in self.sources:
                source.close()
        finally:
            if self.held is not None:
                self.held.close()


class Request(NamedTuple):
    """What was asked for on the command line."""

    plan: Plan
    models_dir: Path
    output_dir: Path
    rehearse: bool
    max_minutes: float | None


def measure(
    request: Request, equipment: Callable[[bool, int], Equipment], say: Callable[[str], None]
) -> Path:
    """Measure a plan, or go on with an unfinished run of it; the run's folder.

    ``equipment`` is asked for a rehearsal or not, and for how many boards. They are held against
    other runs meanwhile. Raises PlanError (2), NoDevice (3), ModelMissing
    or ModelCorrupt (4), OutputError (7), Interrupted (130). Arms that fail are refusals in the
    journal, not errors.
    """
    request = _settled(request)
    plan = request.plan.rehearsed() if request.rehearse else request.plan
    quality_text(plan)
    tools = equipment(request.rehearse, plan.boards)
    try:
        manifests = {m.reference: m for m in _models(plan, request.models_dir, say)}
        contexts = {name: manifest.max_context for name, manifest in manifests.items()}
        check_context(request.plan, contexts)  # as measured, even where this is a rehearsal
        prepare_output(request.output_dir)
        with FolderLock(request.output_dir):
            return _run(request, plan, manifests, tools, say)
    finally:
        tools.close()


def _settled(request: Request) -> Request:
    """A plan whose mode is a rehearsal needs no --rehearse: whoever wrote it has said so."""
    planned = request.plan.protocol.mode is Mode.REHEARSAL
    return request._replace(rehearse=request.rehearse or planned)


def _models(plan: Plan, models_dir: Path, say: Callable[[str], None]) -> list[Manifest]:
    return [verify(reference, models_dir, say) for reference in plan.public().models]


def _run(
    request: Request,
    plan: Plan,
    manifests: dict[str, Manifest],
    tools: Equipment,
    say: Callable[[str], None],
) -> Path:
    text = quality_text(plan)
    opened = RunOpened(
        format=FORMAT,
        run_id="",
        tool_version=__version__,
        plan=plan.public(),
        plan_sha256=plan.sha256,
        models=tuple(manifests.values()),
        text_sha256=sha256_hex(text.read_bytes()),
        rehearsal=request.rehearse,
    )
    expected = predict(plan, {name: size_of(manifest) for name, manifest in manifests.items()})
    here = _session(tools, expected, say)
    folder, journal, facts = _open_journal(request.output_dir, opened, here, say)
    with journal:
        done = progress(facts)
        session = _joined(journal, done, here)
        deadline = _deadline(request.max_minutes, tools.clock)
        rig = _rig(request, tools, manifests, folder, text, say)
        try:
            Runner(plan, rig, journal, session, done).run(expected.first_block_s, deadline)
        except (Interrupted, BoardLost):
            write_energy(folder)  # what was finished can be read, even if nobody goes on
            raise
    return folder


def _rig(
    request: Request,
    tools: Equipment,
    manifests: dict[str, Manifest],
    folder: Path,
    text: Path,
    say: Callable[[str], None],
) -> Rig:
    executor = tools.executor(folder)

    def calibrate(session: SessionOpened) -> Calibrated | None:
        if len(tools.sources) != 1 or not request.plan.protocol.explain:
            return None  # of a model that is split, nobody knows which board waits for which
        bench = Bench(
            source=tools.sources[0],
            executor=executor,
            clock=tools.clock,
            output=request.output_dir,
            say=say,
            sound=lambda found: present(board_cost(found)),
        )
        return calibration_for(session, bench)

    return Rig(
        executor=executor,
        tracers=tools.tracers,
        clock=tools.clock,
        say=say,
        folder=folder,
        models={
            name: (manifest, model_folder(name, request.models_dir))
            for name, manifest in manifests.items()
        },
        prompt_text=builtin_text(),
        quality_text=text,
        quality_name=text.name,
        look=lambda session, group: look_at(read_run(folder), session, group),
        temperature=lambda: _temperature(tools.sources),
        calibrate=calibrate,
    )


def _temperature(sources: tuple[PowerSource, ...]) -> MaybeFloat:
    return hottest(source.telemetry(frozenset()).temperature_c for source in sources)


def _open_journal(
    output: Path, opened: RunOpened, here: SessionOpened, say: Callable[[str], None]
) -> tuple[Path, JournalWriter, tuple[Fact, ...]]:
    folder = unfinished_run(
        output,
        lambda other, facts: _same_run(opened, other) and _same_kind(here, facts),
        _documented,
    )
    if folder is None:
        folder = new_run(output, opened.plan.name, utc_now())
        first = opened.model_copy(update={"run_id": folder.name})
        journal = _first_line(folder, first)
        say(f"run {folder.name}")
        return folder, journal, (first,)
    journal, old = JournalWriter.resume(folder / JOURNAL_NAME, utc_now)
    journal.append(Resumed(tool_version=__version__, torn_bytes=len(old.torn)))
    say(f"going on with run {folder.name}")
    return folder, journal, old.records


def _first_line(folder: Path, first: RunOpened) -> JournalWriter:
    """A journal that has begun; without its first line nothing of the run is left behind."""
    path = folder / JOURNAL_NAME
    try:
        journal = JournalWriter.create(path, utc_now)
        journal.append(first)
    except BaseException:
        if not path.exists() or not path.stat().st_size:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return journal


def _documented(folder: Path, plan: Plan) -> bool:
    """Whether writing the documents was not stopped half-way, by a full disk for one."""
    arms = folder / ARMS_FOLDER
    documents = (arms / arm.id / ENERGY_NAME for arm in plan.expanded())
    return not arms.exists() or all(document.is_file() for document in documents)


def _same_run(a: RunOpened, b: RunOpened) -> bool:
    digests = [[model.digest for model in run.models] for run in (a, b)]
    return (a.tool_version, a.plan_sha256, a.text_sha256, a.rehearsal) == (
        b.tool_version,
        b.plan_sha256,
        b.text_sha256,
        b.rehearsal,
    ) and digests[0] == digests[1]


def _same_kind(here: SessionOpened, facts: tuple[Fact, ...]) -> bool:
    """Whether this machine may go on with a run: another kind of board or software may not."""
    return all(poolable(here, session) for session in progress(facts).sessions)


def _session(tools: Equipment, expected: Prediction, say: Callable[[str], None]) -> SessionOpened:
    """This machine as a session, numbered when it joins a journal."""
    board: Board | Absent = Absent(reason="rehearsal: no board")
    offered: Capabilities | Absent = Absent(reason="rehearsal: no board")
    tick: Tick | Absent = Absent(reason="rehearsal: no board")
    locked = bool(tools.claims) and all(claim.trouble is None for claim in tools.claims)
    isolated = isolation(tools.root, locked=locked)
    others: tuple[OtherBoard, ...] = ()
    if tools.source is not None:
        board, offered = tools.source.board(), tools.source.capabilities()
        check_alike([board, *(other.board() for other in tools.others)])
        tick = measure_tick(tools.source, tools.clock)
        others = tuple(_other(other, tools.clock) for other in tools.others)
        _say_board(board, tick, say)
        for other in others:
            _say_board(other.board, other.tick, say)
        for remark in (*tools.remarks, *_lock_remarks(tools.claims, isolated)):
            say(remark)
    return SessionOpened(
        session=0,
        board=board,
        tick=tick,
        host=host_facts(tools.root),
        isolation=isolated,
        capabilities=offered,
        others=others,
        python=platform.python_version(),
        packages=package_versions(),
        resident=expected.together_bytes <= _MEMORY_SHARE * tools.memory_bytes,
    )


def _joined(journal: JournalWriter, done: Progress, here: SessionOpened) -> SessionOpened:
    """The session of the journal that this machine continues, or a new one."""
    old = session_like(done, here)
    if old is not None:
        return old
    opened = here.model_copy(update={"session": len(done.sessions)})
    journal.append(opened)
    return opened


def _other(source: PowerSource, clock: Clock) -> OtherBoard:
    return OtherBoard(
        board=source.board(), tick=measure_tick(source, clock), capabilities=source.capabilities()
    )


def _lock_remarks(claims: tuple[Claim, ...], isolated: Isolation) -> tuple[str, ...]:
    """Whom the locks of the boards do not keep off, each told once."""
    troubles = dict.fromkeys(claim.trouble for claim in claims if claim.trouble is not None)
    if troubles:
        return tuple(
            f"the board is not locked ({trouble}): see to it that no other run measures on it"
            for trouble in troubles
        )
    if isolated.board_lock == "namespace":
        return (
            "the host's /dev/shm is not shared: only runs inside this container are kept off "
            "the board (docker run --ipc=host locks it for the whole host)",
        )
    return ()


def _say_board(board: Board, tick: Tick | Absent, say: Callable[[str], None]) -> None:
    if present(tick):
        how = f"energy counter, advancing every {tick.median_ms:.0f} ms"
    elif board.power is not PowerKind.NONE:
        how = f"{board.power} integrated (no energy counter: {tick.reason})"
    else:
        raise NoPowerReading(
            f"{board.name} reports neither energy ({tick.reason}) nor power.",
            "This board cannot be measured. You can still rehearse: ecocompute measure --rehearse.",
        )
    say(f"measuring on {board.name}, driver {board.driver}, by its {how}")


def _deadline(max_minutes: float | None, clock: Clock) -> int | None:
    return None if max_minutes is None else clock.now_ns() + nanoseconds(60 * max_minutes)


def builtin_text() -> Path:
    """The public-domain text that ships with the package."""
    return Path(str(files("ecocompute_cube") / "texts" / _BUILTIN_TEXT))


def quality_text(plan: Plan) -> Path:
    """The text that is scored. Raises PlanError when the plan's own cannot be read."""
    if plan.quality.text == "builtin":
        return builtin_text()
    path = Path(plan.quality.text)
    if path.exists() and not path.is_file():
        raise PlanError(
            f"The quality text '{path.name}' is no regular file.", "Save the text to a file first."
        )
    if path.name == "builtin":
        raise PlanError("A quality text called 'builtin' would be taken for ours.", "Rename it.")
    try:
        if not path.read_text(encoding="utf-8").strip():
            raise PlanError(f"The quality text '{path.name}' is empty.", "Give a text with words.")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(
            f"The quality text '{path.name}' cannot be read as UTF-8 ({error}).",
            "Correct quality.text (a relative path is taken from the plan's folder) or "
            "--quality_text.",
        ) from None
    return path


def utc_now() -> str:
    """The time as the documents write it. Metadata only: durations use the monotonic clock."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def real_equipment(
    rehearse: bool, boards: int = 1, backend: str = _BACKEND, root: Path = Path("/")
) -> Equipment:
    """This machine's boards, or its CPU for a rehearsal; ``backend`` as the child names it.

    Raises NvmlMissing, DriverMismatch, NoGpu, TooFewBoards, BoardBusy, NoDevice (3).
    """
    with ExitStack() as held:
        environment = {**held.enter_context(with_home(os.environ)), "HF_HUB_OFFLINE": "1"}
        if rehearse:
            tools = _rehearsal_equipment(backend, environment)
        else:
            tools = _board_equipment(boards, backend, root, environment, held)
        return tools._replace(root=root, held=held.pop_all())


def _board_equipment(
    boards: int, backend: str, root: Path, environment: dict[str, str], held: ExitStack
) -> Equipment:
    from ecocompute_cube.device.nvml import NvmlBoard, choose_boards
    from ecocompute_cube.device.sampler import ProcessTracer

    chosen = choose_boards(boards, os.environ, root)
    for each in chosen:
        held.callback(each.claim.close)
    if backend == _BACKEND:
        _require_cuda(root)
    uuids = [each.uuid for each in chosen]
    source, *others = map(NvmlBoard, uuids)
    # The children see these boards and no other, in this order, whatever CUDA would number first.
    seen = {**environment, "CUDA_VISIBLE_DEVICES": ",".join(uuids)}
    devices = ",".join(f"cuda:{place}" for place in range(boards))
    return Equipment(
        source=source,
        executor=lambda folder: ChildProcesses(
            backend, f"nvml:{','.join(uuids)}", devices, folder / "logs", seen
        ),
        tracers=tuple(map(ProcessTracer, uuids)),
        clock=SystemClock(),
        memory_bytes=sum(board.board().memory_mib for board in (source, *others)) * 2**20,
        others=tuple(others),
        remarks=tuple(dict.fromkeys(each.remark for each in chosen if each.remark is not None)),
        claims=tuple(each.claim for each in chosen),
    )


def _require_cuda(root: Path) -> None:
    if package_versions().get("torch", "").endswith("+cpu"):
        raise NoDevice(
            "There is an NVIDIA board, but the installed torch is a CPU build.",
            "Install a CUDA build of torch (make setup does on a GPU host).",
        )
    require_cuda(root, os.environ)


def _rehearsal_equipment(backend: str, environment: dict[str, str]) -> Equipment:
    # Threads that spin while they wait take the cores from each other where others compute too.
    blind = {"OMP_WAIT_POLICY": "PASSIVE", **environment, "CUDA_VISIBLE_DEVICES": ""}
    return Equipment(
        source=None,
        executor=lambda folder: ChildProcesses(backend, "none", "cpu", folder / "logs", blind),
        tracers=(),
        clock=SystemClock(),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    )
