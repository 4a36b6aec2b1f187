"""One error tree; every leaf says what went wrong, what to do, and how the process exits.

EcoError
├── UsageError                2  the command line or a document cannot be understood
│   └── PlanError             2  the plan asks for something impossible
├── NoDevice                  3  no board here can be measured
│   ├── NvmlMissing           3  the driver's library is not there
│   ├── DriverMismatch        3  library and kernel module are of different versions
│   ├── NoGpu                 3  NVML answers but shows no usable board
│   ├── BoardBusy             3  another run measures the board
│   ├── MigSlice              3  a part of a board: power is of the whole
│   ├── VirtualGpu            3  a board that others share: power, if any, is of all of them
│   ├── IntegratedBoard       3  a board that is one with its host
│   └── NoPowerReading        3  the board reports neither energy nor power
├── ModelError                4
│   ├── ModelMissing          4  a model was never downloaded
│   ├── ModelCorrupt          4  a file differs from its manifest, or from what the hub promised
│   ├── HubRefused            4  the hub does not hand a model out: no such name, or no right to it
│   ├── HubUnreachable        4  the hub does not answer, or stopped in the middle
│   └── HubBusy               4  the hub wants fewer requests
├── MeasurementInvalid        5  it ran, but the numbers cannot be used
├── DocumentInvalid           6  a document fails its schema
│   └── JournalBroken         6  the hash chain of a journal does not hold
├── OutputError               7  the output folder cannot be used
│   ├── OutputBusy            7  another run writes there
│   └── DiskFull              7
├── ServiceError              8
│   ├── ServiceRefused        8  a service that keeps records does not take what was sent
│   ├── ServiceUnreachable    8  it does not answer, or fails by itself
│   └── ServiceBusy           8  it wants fewer requests
├── ArmFailed                 -  one arm cannot be measured; it costs that arm, not the run
└── Interrupted             130  stopped by the user or the system
"""

from __future__ import annotations

import errno
import os
from typing import ClassVar

#: OSError numbers that mean "no room": disk full, quota used up, file-size limit (errno(3)).
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class EcoError(Exception):
    """Base of all errors a user may see: one sentence of cause, one of remedy."""

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 1

    def __init__(self, cause: str, fix: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.cause} {self.fix}"


class UsageError(EcoError):
    """The command line or an input document cannot be understood."""

    code = "usage"
    exit_status = 2


class PlanError(UsageError):
    """The plan asks for something that cannot be done."""

    code = "plan"


class NoDevice(EcoError):
    """No board here can be measured."""

    code = "no_device"
    exit_status = 3


class NvmlMissing(NoDevice):
    """The NVIDIA driver's management library cannot be loaded."""

    code = "nvml_missing"


class DriverMismatch(NoDevice):
    """Driver library and kernel module are of different versions."""

    code = "driver_mismatch"


class NoGpu(NoDevice):
    """NVML answers, but no usable board is visible."""

    code = "no_gpu"


class TooFewBoards(NoDevice):
    """The plan splits its models over more boards than this run may see."""

    code = "too_few_boards"


class MixedBoards(NoDevice):
    """The boards that a model would be split over are not of one kind."""

    code = "mixed_boards"


class BoardBusy(NoDevice):
    """Another run measures the board, or somebody else computes on every one of them."""

    code = "board_busy"


class BoardLost(NoDevice):
    """The board stopped answering while it was measured."""

    code = "board_lost"


class MigSlice(NoDevice):
    """The board is divided by MIG, or a slice of one was named; a slice has no power of its own."""

    code = "mig_slice"


class VirtualGpu(NoDevice):
    """A vGPU: what it reads, if anything, is of a board that others share."""

    code = "virtual_gpu"


class IntegratedBoard(NoDevice):
    """The board shares its host's memory and power, as on Jetson or GB10."""

    code = "integrated_board"


class NoPowerReading(NoDevice):
    """The board reports neither energy nor power."""

    code = "no_power_reading"


class ModelError(EcoError):
    """A model cannot be used."""

    code = "model"
    exit_status = 4


class ModelMissing(ModelError):
    """A model named by the plan is not in the models folder."""

    code = "model_missing"


class ModelCorrupt(ModelError):
    """A model file is not what its manifest, or the hub, says."""

    code = "model_corrupt"


class HubRefused(ModelError):
    """The hub does not hand a model out: it knows no such name, or this user may not have it."""

    code = "hub_refused"


class HubUnreachable(ModelError):
    """The hub does not answer, or stopped in the middle; what has arrived is kept."""

    code = "hub_unreachable"


class HubBusy(ModelError):
    """The hub wants fewer requests; what has arrived is kept."""

    code = "hub_busy"


class MeasurementInvalid(EcoError):
    """The run finished, but no valid number came out of it."""

    code = "measurement_invalid"
    exit_status = 5


class DocumentInvalid(EcoError):
    """A document does not satisfy its schema."""

    code = "document_invalid"
    exit_status = 6


class JournalBroken(DocumentInvalid):
    """A journal's lines do not follow from one another."""

    code = "journal_broken"


class OutputError(EcoError):
    """The output folder cannot be used."""

    code = "output"
    exit_status = 7


class OutputBusy(OutputError):
    """Another run is writing to the same folder."""

    code = "output_busy"


class DiskFull(OutputError):
    """No room is left for the results."""

    code = "disk_full"


class ServiceError(EcoError):
    """A service that keeps records cannot be used; what it has taken is kept there."""

    code = "service"
    exit_status = 8


class ServiceRefused(ServiceError):
    """A service that keeps records does not take what was sent, or knows no such record."""

    code = "service_refused"


class ServiceUnreachable(ServiceError):
    """A service that keeps records does not answer, or fails by itself."""

    code = "service_unreachable"


class ServiceBusy(ServiceError):
    """A service that keeps records wants fewer requests than were made."""

    code = "service_busy"


class ArmFailed(EcoError):
    """One arm cannot be measured; the others go on.

    ``reason`` is the machine-readable code stored in the journal's refusal.
    """

    code = "arm_failed"
    exit_status = 5

    def __init__(self, reason: str, cause: str, fix: str) -> None:
        super().__init__(cause, fix)
        self.reason = reason


class Interrupted(EcoError):
    """Stopped by Ctrl-C or SIGTERM; what was finished is kept."""

    code = "interrupted"
    exit_status = 130


def unforeseen(error: OSError) -> EcoError | None:
    """What no command expected of this machine's files; None where it is no matter of a file."""
    reason = error.strerror or type(error).__name__
    if error.errno in NO_ROOM:
        return DiskFull(f"No room left on the disk ({reason}).", "Free some space and try again.")
    if error.filename is None:
        return None
    return UsageError(
        f"'{os.fsdecode(error.filename)}' cannot be used ({reason}).",
        "Look whether the path is right, and who may read and write there.",
    )


def output_error(error: OSError, doing: str) -> OutputError:
    """The error tree's word for a failed write: ``doing`` completes "could not …"."""
    reason = error.strerror or type(error).__name__
    if error.errno in NO_ROOM:
        return DiskFull(
            f"No room left on the disk while trying to {doing} ({reason}).",
            "Free some space and run the same command again: finished blocks are kept.",
        )
    return OutputError(
        f"Could not {doing} ({reason}).",
        "Choose a folder you can write to with --output_dir.",
    )
