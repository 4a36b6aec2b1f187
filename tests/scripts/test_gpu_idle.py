"""When a board counts as idle: a stand-in for nvidia-smi plays a few looks, and nobody sleeps."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_idle.sh"
LOOKS = 5  # that must agree

#: Answers look by look from files, the last one for ever; counts looks by the boards it shows.
_NVIDIA_SMI = """\
#!/bin/sh
echo "$*" >>'{here}/asked'
look=$(grep -c query-gpu '{here}/asked')
case $1 in
--query-compute-apps=*) look=$((look + 1)) kind=processes ;;
*) kind=boards ;;
esac
while [ "$look" -gt 1 ] && [ ! -e "{here}/$look.$kind" ]; do look=$((look - 1)); done
cat "{here}/$look.$kind"
"""
_FAILING = "#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n"


class Look(NamedTuple):
    """What nvidia-smi shows at one moment."""

    boards: str
    processes: str = ""


IDLE = Look("0, 0, 75.10\n")


class Ended(NamedTuple):
    status: int
    said: str
    asked: list[str]
    naps: int


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder of commands that come first."""
    program(tmp_path / "sleep", f"#!/bin/sh\necho nap >>'{tmp_path}/naps'\n")
    return tmp_path


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def waited(here: Path, looks: Sequence[Look], *arguments: str, boards: str = "all") -> Ended:
    program(here / "nvidia-smi", _NVIDIA_SMI.format(here=here))
    for number, look in enumerate(looks, start=1):
        (here / f"{number}.boards").write_text(look.boards)
        (here / f"{number}.processes").write_text(look.processes)
    return ended(here, *arguments, boards=boards)


def ended(here: Path, *arguments: str, boards: str = "all") -> Ended:
    done = subprocess.run(
        ["sh", SCRIPT, *arguments],
        env={"PATH": f"{here}:{os.environ['PATH']}", "ECO_GPUS": boards},
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(done.returncode, done.stderr, lines(here / "asked"), len(lines(here / "naps")))


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_board_is_idle_after_five_looks_that_agree(here: Path) -> None:
    told = waited(here, [IDLE])
    assert (told.status, told.naps) == (0, LOOKS - 1)
    assert told.said == "ecocompute: idle: 0, 0, 75.10 (board, %, W).\n"


def test_a_process_that_leaves_is_waited_for_and_what_it_drew_forgotten(here: Path) -> None:
    told = waited(here, [Look("0, 98, 640.00\n", "4242\n"), Look("0, 0, 600.00\n", "4242\n"), IDLE])
    assert (told.status, told.naps) == (0, 2 + LOOKS - 1)


def test_a_process_that_stays_is_named(here: Path) -> None:
    told = waited(here, [Look("0, 0, 75.00\n", "4242\n77\n")], "1")
    assert told.status == 3
    assert told.said == (
        "ecocompute: not idle after 1 minutes: process 4242 computes on a board.\n"
    )


def test_work_of_another_container_shows_as_utilisation(here: Path) -> None:
    told = waited(here, [Look("0, 0, 75.00\n1, 37, 75.00\n")], "0")
    assert told.status == 3
    assert "not idle after 0 minutes: board 1 is in use (37 %)." in told.said


def test_power_is_waited_for_until_it_settles(here: Path) -> None:
    falling = [Look(f"0, 0, {watts}\n") for watts in (300, 180, 120, 90, 76.1)]
    told = waited(here, [*falling, Look("0, 0, 75.20\n")])
    assert (told.status, told.naps) == (0, len(falling) + LOOKS - 2)


def test_power_that_does_not_settle_is_told(here: Path) -> None:
    swinging = [Look(f"0, 0, {watts}\n") for watts in (75.0, 95.0)] * 40
    told = waited(here, swinging, "1")
    assert told.status == 3
    assert "the power draw of board 0 has not settled (75 to 95 W)" in told.said


def test_a_small_board_may_differ_by_a_step_of_its_sensor(here: Path) -> None:
    stepping = [Look(f"0, 0, {watts}\n") for watts in (5.0, 7.5, 5.0, 7.5, 5.0)]
    assert waited(here, stepping).status == 0


def test_a_board_that_does_not_say_what_it_draws_is_judged_by_the_rest(here: Path) -> None:
    assert waited(here, [Look("0, 0, [N/A]\n")]).status == 0
    assert waited(here, [Look("0, 9, [N/A]\n")], "0").status == 3


def test_every_board_must_be_idle(here: Path) -> None:
    assert waited(here, [Look("0, 0, 75.0\n1, 0, 60.0\n")]).status == 0
    assert waited(here, [Look("0, 0, 75.0\n1, 1, 60.0\n")], "0").status == 3


@pytest.mark.parametrize(
    ("boards", "asked"),
    [
        ("device=1", "--id=1"),
        ("'\"device=0,1\"'", "--id=0,1"),
        ("device=GPU-12ab", "--id=GPU-12ab"),
    ],
)
def test_only_the_boards_that_measure_gets_are_looked_at(
    here: Path, boards: str, asked: str
) -> None:
    told = waited(here, [IDLE], boards=boards)
    assert told.status == 0
    assert all(line.split()[-1] == asked for line in told.asked)


@pytest.mark.parametrize("script", [_FAILING, "#!/bin/sh\n"])
def test_no_board_is_no_idle_board(here: Path, script: str) -> None:
    program(here / "nvidia-smi", script)
    told = ended(here)
    assert told.status == 3 and "nvidia-smi shows no board 'all' here" in told.said


@pytest.mark.parametrize("minutes", ["ten", "-1", "1.5"])
def test_minutes_are_whole_numbers(here: Path, minutes: str) -> None:
    told = waited(here, [IDLE], minutes)
    assert told.status == 2 and told.asked == [] and f"'{minutes}'" in told.said
