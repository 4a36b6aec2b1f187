"""A real board through the real driver: the readings exist and make sense."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ecocompute_cube.device.base import SystemClock
from ecocompute_cube.device.nvml import NvmlBoard
from ecocompute_cube.engine.window import measure_tick, wait_for_tick
from ecocompute_cube.model.base import present, sha256_hex
from ecocompute_cube.model.readings import PowerKind, Tick

pytestmark = pytest.mark.gpu

BEYOND_LIMIT = 1.3  # an H200 was seen 30 % above its limit for a moment


@pytest.fixture
def board(uuid: str) -> Iterator[NvmlBoard]:
    board = NvmlBoard(uuid)
    yield board
    board.close()


def test_the_energy_counter_advances(board: NvmlBoard) -> None:
    before = board.energy_mj()
    edge = wait_for_tick(board, SystemClock())
    assert present(before), before
    assert present(edge), edge
    assert edge.energy_mj > before


def test_its_tick_lies_between_20_and_200_ms_and_a_call_is_shorter(board: NvmlBoard) -> None:
    tick = measure_tick(board, SystemClock())
    assert isinstance(tick, Tick), tick
    assert 20 <= tick.median_ms <= 200, tick
    assert tick.call_median_ms < tick.median_ms, tick


def test_telemetry_is_plausible(board: NvmlBoard) -> None:
    seen, limit = board.telemetry(frozenset()), board.board().power_limit_w
    assert present(seen.temperature_c) and 10 <= seen.temperature_c <= 100
    assert present(limit) and 10 <= limit <= 2000
    assert present(seen.power_w) and 1 < seen.power_w <= BEYOND_LIMIT * limit
    for clock in (seen.sm_clock_mhz, seen.memory_clock_mhz):
        assert present(clock) and 50 <= clock <= 20_000
    assert present(seen.event_reasons), seen.event_reasons
    assert present(seen.foreign_processes) and seen.foreign_processes >= 0


def test_what_the_journal_would_hold_names_the_board_and_hides_its_uuid(
    board: NvmlBoard, uuid: str
) -> None:
    facts = board.board()
    assert facts.energy_counter is True
    assert facts.power is not PowerKind.NONE
    assert facts.mig is not True
    assert facts.memory_mib > 1000
    assert facts.uuid_sha256 == sha256_hex(uuid.encode())
    assert uuid.removeprefix("GPU-") not in facts.model_dump_json()
    texts = (facts.name, facts.driver, facts.nvml, facts.compute_capability)
    assert not any(text.startswith("unknown") for text in texts), texts
