"""Where the energy goes, on a scripted board whose costs are known."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ecocompute_cube.analysis.evidence import evidence
from ecocompute_cube.backends.base import Kernels, Profile, Session
from ecocompute_cube.backends.fake import FakeBackend, FakeSession
from ecocompute_cube.backends.precision import RECIPES
from ecocompute_cube.device.scripted import Behaviour
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.cost import Calibrated, KernelRun, Profiled, StepCost, Work
from ecocompute_cube.model.journal import Certificate, Refused
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from ecocompute_cube.model.plan import Phase, Runtime
from ecocompute_cube.model.readings import CounterBracket, CounterReading, Span
from ecocompute_cube.model.why import Why
from ecocompute_cube.report.recompute import recompute
from ecocompute_cube.report.text import as_text
from ecocompute_cube.report.write import write_energy

from ..model.facts import write_journal
from .rig import IDLE_W, Scene, plan

if TYPE_CHECKING:
    from ecocompute_cube.model.journal import Fact
    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm, Plan
    from ecocompute_cube.model.report import Report

COPY = (10_000, 0.01, 280.0)  # bytes, seconds, watts: 0.2 mJ a byte above idle, 1 MB/s
PRODUCT = (20_000, 0.01, 180.0)  # operations: 0.05 mJ each above idle, 2 million a second
STEP = StepCost(layers=4, weights=Work(bytes=2_000, flop=2_000), position=Work(bytes=1, flop=0))
OUTPUT, PROMPT = 100, 10
EAGER_S, STATIC_S, GRAPH_S = 0.020, 0.0195, 0.004  # a step, by runtime


class Told(FakeSession):
    """A session with a step of known cost, which a profiler sees busy for 5 ms a token."""

    def certificate(self) -> Certificate:
        library = RECIPES[self._arm.precision].library
        return super().certificate().model_copy(update={"kernels": f"{library} 1.0"})

    def step(self) -> StepCost:
        return STEP

    def profile(self) -> Profile:
        return Profile(tokens=10, launches=3_000, busy_s=0.05)


class Prompt(Told):
    """A profiler of one pass of a prompt."""

    def profile(self) -> Profile:
        return Profile(tokens=1, launches=300, busy_s=0.003)


class Blind(Told):
    """A profiler that sees nothing."""

    def profile(self) -> Profile:
        none = Absent(reason="the profiler saw no kernel")
        return Profile(10, none, none)


class Broken(Told):
    """A profiler that brings the arm down."""

    def profile(self) -> Profile:
        raise ArmFailed("library_error", "The profiler failed as scripted.", "")


class Backend(FakeBackend):
    """Graphs are five times as fast as eager decoding."""

    session: type[Told] = Told
    copy = COPY

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        token_s = {Runtime.GRAPH: GRAPH_S, Runtime.STATIC: STATIC_S}.get(arm.runtime, EAGER_S)
        return self.session(arm, self._work, token_s, 200.0, manifest.max_context)

    def kernels(self) -> Kernels | Absent:
        self._calibration = {"copy": self.copy, "product": PRODUCT}
        return super().kernels()._replace(cache_bytes=500)  # type: ignore[union-attr]  # scripted


def backend(session: type[Told] = Told, **changes: object) -> type[FakeBackend]:
    return type("Scripted", (Backend,), {"session": session, **changes})


ASKED = plan(
    arms=["FP16", "FP16/graph"],
    workloads=[{"output_tokens": OUTPUT, "prompt_tokens": PROMPT}],
    protocol={"mode": "precise", "iterations": 4, "blocks": 2, "warmup": {"min_passes": 1}},
)


def measured(
    folder: Path, kind: type[FakeBackend], asked: Plan = ASKED, **behaviour: object
) -> Report:
    scene = Scene(folder, Behaviour(idle_w=IDLE_W, **behaviour), backend=kind)  # type: ignore[arg-type]
    return write_energy(scene.measure(asked))


def why(report: Report, runtime: Runtime = Runtime.EAGER) -> Why | Absent:
    return next(arm.why for arm in report.arms if arm.runtime is runtime)


def explained(report: Report, runtime: Runtime = Runtime.EAGER) -> Why:
    found = why(report, runtime)
    assert present(found), found
    return found


def facts(folder: Path) -> tuple[Fact, ...]:
    (journal,) = folder.glob(f"results/*/{JOURNAL_NAME}")
    return read_journal(journal).records


def reason(found: Why | Absent) -> str:
    assert isinstance(found, Absent), found
    return found.reason


def test_the_parts_are_what_was_scripted_and_add_up_to_the_energy(tmp_path: Path) -> None:
    report = measured(tmp_path, backend())
    found = explained(report)
    read = 2_000 + PROMPT + OUTPUT / 2
    multiplied = 2_000 * (PROMPT + OUTPUT - 1) / OUTPUT
    waiting = 1 - GRAPH_S / EAGER_S
    assert found.waiting == pytest.approx(waiting)
    assert found.waiting_by == "captured step"
    assert found.idle_waiting_mj == pytest.approx(1e3 * IDLE_W * EAGER_S * waiting, rel=0.01)
    assert found.idle_busy_mj == pytest.approx(1e3 * IDLE_W * GRAPH_S, rel=0.01)
    assert found.memory_mj == pytest.approx(0.2 * read, rel=0.02)
    assert found.compute_mj == pytest.approx(0.05 * multiplied, rel=0.02)
    energy = report.arms[0].energy
    assert present(energy)
    parts = found.idle_waiting_mj + found.idle_busy_mj + found.memory_mj + found.compute_mj
    assert parts + found.unattributed_mj == pytest.approx(energy.mj_per_token)
    assert found.copy_bytes_per_s == pytest.approx(1e6, rel=0.02)
    assert found.layer_steps_per_s == pytest.approx(4 / EAGER_S)
    assert found.launches_per_token == 300
    assert found.idle_bare_w == pytest.approx(IDLE_W, rel=0.05)


@pytest.mark.parametrize("field", ["memory_mj", "waiting", "joule_per_byte", "says"])
def test_an_explanation_that_was_edited_is_caught_by_its_journal(
    tmp_path: Path, field: str
) -> None:
    measured(tmp_path, backend())
    path = next(tmp_path.glob("results/*/arms/*eager/energy.json"))
    document = json.loads(path.read_text())
    assert recompute(path, document) == []
    document["why"][field] = "Memory-bound." if field == "says" else 0.5
    (line,) = recompute(path, document) or []
    assert line.startswith(f"why.{field} is ")


def test_a_sentence_may_be_worded_better_later_but_finds_the_same_with_the_same_figures(
    tmp_path: Path,
) -> None:
    measured(tmp_path, backend())
    path = next(tmp_path.glob("results/*/arms/*eager/energy.json"))
    document = json.loads(path.read_text())
    said = document["why"]["says"]
    for wording, told in (
        (said.replace("the board", "that board"), []),
        (said.replace("Host-bound", "Memory-bound"), ["why.says"]),
        (re.sub(r"\d+%", "12%", said, count=1), ["why.says"]),
    ):
        assert wording != said
        document["why"]["says"] = wording
        assert [line.split(" is ")[0] for line in recompute(path, document) or []] == told


def test_the_sentence_says_what_to_type_and_what_it_did_here(tmp_path: Path) -> None:
    report = measured(tmp_path, backend())
    said = explained(report).says
    assert "Host-bound: the board waits for the host for about 80% of each token" in said
    assert 'cache_implementation="static"' in said
    assert "0.20 of the energy here" in said
    assert said in as_text(report)
    assert explained(report, Runtime.GRAPH).says.startswith("Memory-bound")  # 0.5 MB/s of 1


def test_what_cannot_be_typed_or_saves_next_to_nothing_is_not_advised(tmp_path: Path) -> None:
    bitsandbytes = ASKED.model_copy(update={"arms": ("NF4", "NF4/graph")})
    static = ASKED.model_copy(update={"arms": ("FP16", "FP16/static", "FP16/graph")})
    for name, asked in (("a", bitsandbytes), ("b", static)):
        said = explained(measured(tmp_path / name, backend(), asked)).says
        assert "with the step captured as a CUDA graph the same arm used 0.20" in said
        assert "type" not in said


@pytest.mark.parametrize("whole_s", [0.05, 0.075])
def test_a_long_prompt_weighs_in_a_profile_as_in_a_window(tmp_path: Path, whole_s: float) -> None:
    step_s = 0.003
    profile = Profile(10, 3_000, whole_s, 300, whole_s - 9 * step_s)
    session = type("Long", (Told,), {"profile": lambda self: profile})
    asked = ASKED.model_copy(update={"arms": ASKED.arms[:1]})
    found = explained(measured(tmp_path, backend(session), asked))
    busy_s = (whole_s - 9 * step_s + (OUTPUT - 1) * step_s) / OUTPUT
    assert found.waiting == pytest.approx(1 - busy_s / EAGER_S)
    assert found.launches_per_token == 300


def test_without_a_captured_arm_a_profiler_tells_the_waiting(tmp_path: Path) -> None:
    asked = ASKED.model_copy(update={"arms": ASKED.arms[:1]})
    found = explained(measured(tmp_path, backend(), asked))
    assert found.waiting == pytest.approx(1 - 0.005 / EAGER_S)
    assert found.waiting_by == "profiler"


def test_a_prompts_pass_is_captured_by_no_runtime(tmp_path: Path) -> None:
    work = ASKED.workloads[0].model_copy(update={"phase": Phase.PREFILL})
    report = measured(tmp_path, backend(Prompt), ASKED.model_copy(update={"workloads": (work,)}))
    for runtime, pass_s in ((Runtime.EAGER, EAGER_S), (Runtime.GRAPH, GRAPH_S)):
        found = explained(report, runtime)
        assert found.waiting_by == "profiler"
        assert found.waiting == pytest.approx(1 - 0.003 / pass_s)
    assert "Host-bound" in explained(report).says
    assert "of the energy here" not in explained(report).says


@pytest.mark.parametrize(
    ("session", "told"), [(Blind, "saw no kernel"), (Broken, "failed as scripted")]
)
def test_without_either_there_is_a_reason_and_the_arm_stays(
    tmp_path: Path, session: type[Told], told: str
) -> None:
    asked = ASKED.model_copy(update={"arms": ASKED.arms[:1]})
    report = measured(tmp_path, backend(session), asked)
    assert told in reason(why(report))
    assert present(report.arms[0].energy)
    assert not [fact for fact in facts(tmp_path) if isinstance(fact, Refused)]


def test_a_profile_is_taken_once_an_arm_and_after_its_last_window(tmp_path: Path) -> None:
    measured(tmp_path, backend())
    kinds = [fact.kind for fact in facts(tmp_path)]
    assert kinds.count("profiled") == 2
    assert kinds.index("profiled") > max(i for i, kind in enumerate(kinds) if kind == "window")
    assert kinds.index("calibrated") < kinds.index("block_opened")


def test_a_profile_that_saw_nothing_does_not_undo_an_earlier_one(tmp_path: Path) -> None:
    measured(tmp_path, backend())
    known = facts(tmp_path)
    seen = next(fact for fact in known if isinstance(fact, Profiled))
    blind = seen.model_copy(update={"busy_s": Absent(reason="the profiler saw no kernel")})
    assert evidence((*known, blind)).profiled[seen.arm] == seen


def test_a_calibration_takes_twenty_seconds_a_kernel(tmp_path: Path) -> None:
    measured(tmp_path, backend())
    (found,) = (fact for fact in facts(tmp_path) if isinstance(fact, Calibrated))
    for run in (found.copy_bytes, found.product_flop):
        assert present(run)
        assert run.work.end_ns - run.work.start_ns >= 20e9


def test_a_second_run_takes_the_calibration_over_and_names_where_from(tmp_path: Path) -> None:
    scene = Scene(tmp_path, Behaviour(idle_w=IDLE_W), backend=backend())
    first = scene.measure(ASKED)
    second = scene.measure(ASKED.model_copy(update={"name": "another"}))
    (old,) = (f for f in read_journal(first / JOURNAL_NAME).records if isinstance(f, Calibrated))
    (new,) = (f for f in read_journal(second / JOURNAL_NAME).records if isinstance(f, Calibrated))
    assert new.taken_from == first.name
    assert new.copy_bytes == old.copy_bytes
    assert any("taken over" in line for line in scene.lines)
    assert present(why(write_energy(second)))


def test_a_calibration_that_says_nothing_is_not_taken_over(tmp_path: Path) -> None:
    """A neighbour came while the first run calibrated; it is not held against later ones."""
    scene = Scene(tmp_path, Behaviour(idle_w=IDLE_W), backend=backend())
    scene.board.behaviour = scene.board.behaviour._replace(foreign=1)
    beside = scene.measure(ASKED)
    assert not present(why(write_energy(beside)))
    scene.board.behaviour = scene.board.behaviour._replace(foreign=0)
    alone = scene.measure(ASKED.model_copy(update={"name": "another"}))
    assert present(why(write_energy(alone)))
    assert not any("taken over" in line for line in scene.lines)


def test_where_neighbours_are_hidden_nothing_is_calibrated_for_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, Behaviour(idle_w=IDLE_W, hidden="in a container"), backend=backend())
    scene.measure(ASKED)
    (found,) = (fact for fact in facts(tmp_path) if isinstance(fact, Calibrated))
    assert isinstance(found.copy_bytes, Absent)
    assert "in a container" in found.copy_bytes.reason


def twice(folder: Path, **changed: object) -> tuple[Calibrated, list[str]]:
    """What a second run is calibrated to after the first one's calibration was changed so."""
    scene = Scene(folder, Behaviour(idle_w=IDLE_W), backend=backend())
    first = scene.measure(ASKED)
    known = read_journal(first / JOURNAL_NAME).records
    (first / JOURNAL_NAME).unlink()
    write_journal(
        first / JOURNAL_NAME,
        tuple(f.model_copy(update=changed) if isinstance(f, Calibrated) else f for f in known),
    )
    scene.lines.clear()
    second = scene.measure(ASKED.model_copy(update={"name": "another"}))
    (new,) = (f for f in read_journal(second / JOURNAL_NAME).records if isinstance(f, Calibrated))
    assert present(why(write_energy(second)))
    return new, scene.lines


def kernel(start_ns: int, end_ns: int) -> KernelRun:
    """Readings of a counter that moves, around work of any length."""
    reading = [CounterReading(before_ns=n, energy_mj=n // 10**6, after_ns=n) for n in TICKS]
    names = ("previous", "opening", "closing", "next", "after_next")
    bracket = CounterBracket(**dict(zip(names, reading, strict=True)))
    return KernelRun(amount=10**9, counter=bracket, work=Span(start_ns=start_ns, end_ns=end_ns))


TICKS = [n * 10**8 for n in (1, 2, 30, 31, 32)]
GONE = Absent(reason="gone")


@pytest.mark.parametrize(
    "changed",
    [
        {"product_flop": GONE},
        {"resting": GONE},
        {"tick": GONE},
        {"copy_bytes": kernel(TICKS[1], TICKS[1])},
        {"copy_bytes": kernel(TICKS[2], TICKS[1])},
    ],
    ids=["no product", "no rest", "no tick", "no time", "time that runs backwards"],
)
def test_a_calibration_that_explains_nothing_is_not_taken_over(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    new, lines = twice(tmp_path, **changed)
    assert isinstance(new.taken_from, Absent)
    assert any("calibrating this board" in line for line in lines)


def test_a_calibration_from_a_journal_whose_chain_is_broken_is_not_taken_over(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, Behaviour(idle_w=IDLE_W), backend=backend())
    first = scene.measure(ASKED) / JOURNAL_NAME
    first.write_bytes(first.read_bytes().replace(b'"cache_bytes":500', b'"cache_bytes":501'))
    second = scene.measure(ASKED.model_copy(update={"name": "another"})) / JOURNAL_NAME
    (new,) = (f for f in read_journal(second).records if isinstance(f, Calibrated))
    assert isinstance(new.taken_from, Absent)


def test_the_run_that_a_calibration_is_from_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    _, lines = twice(tmp_path, taken_from="a\x1b[31m\n")
    (told,) = (line for line in lines if "taken over" in line)
    assert told.isprintable()


def test_a_plan_may_do_without(tmp_path: Path) -> None:
    protocol = ASKED.protocol.model_copy(update={"explain": False})
    report = measured(tmp_path, backend(), ASKED.model_copy(update={"protocol": protocol}))
    assert "not_calibrated" in reason(why(report))
    assert not [f for f in facts(tmp_path) if isinstance(f, Calibrated | Profiled)]


def test_what_nobody_can_calibrate_is_a_reason(tmp_path: Path) -> None:
    class Bare(Backend):
        def kernels(self) -> Kernels | Absent:
            return Absent(reason="nothing to launch")

    assert "nothing to launch" in reason(why(measured(tmp_path, Bare)))


def test_a_board_without_a_counter_is_not_calibrated(tmp_path: Path) -> None:
    report = measured(tmp_path, backend(), counter=False)
    assert "not_calibrated" in reason(why(report))
    assert not [f for f in facts(tmp_path) if isinstance(f, Calibrated)]


def test_neighbours_leave_no_explanation(tmp_path: Path) -> None:
    report = measured(tmp_path, backend(), hidden="in a container")
    assert "neighbours_unknown" in reason(why(report))


def test_weights_read_faster_than_memory_can_are_a_fault_and_no_result(tmp_path: Path) -> None:
    slow = (
        1_000,
        0.01,
        280.0,
    )  # 0.1 MB/s: of 2000 bytes 500 may lie in a cache, the rest takes 15 ms
    report = measured(tmp_path, backend(copy=slow))
    codes = {finding.code: finding for finding in report.findings}
    assert codes["impossible_rate"].effect == "invalid"
    assert codes["impossible_rate"].subject.endswith("graph")
    assert not present(report.arms[1].energy)
    assert present(report.arms[0].energy)
