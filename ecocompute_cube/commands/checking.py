"""doctor, validate and compare: can this machine, may this document, does another find the same."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ecocompute_cube.commands.terminal import say, write
from ecocompute_cube.commands.words import (
    MODELS,
    PLAN,
    RESULTS,
    add,
    folder,
    path,
    plan_file,
    signers,
)
from ecocompute_cube.errors import EcoError, NoDevice, UsageError

if TYPE_CHECKING:
    from ecocompute_cube.commands.words import Commands
    from ecocompute_cube.doctor import Needs
    from ecocompute_cube.model.base import Absent


_SIDE: Final = "a report.json, a folder that holds one, or a folder of runs"
_PROFILES: Final = ("v1.1-core", "dataset-eligible")


def add_doctor(commands: Commands) -> None:
    """How ``doctor`` is spelled."""
    parser = add(
        commands, "doctor", "can this machine measure, how well, and what is in the way", _doctor
    )
    plan_file(parser)
    folder(parser, "--models_dir", MODELS, "models, for what is still to be downloaded")
    folder(parser, "--output_dir", RESULTS, "where runs would go, for the room on its disk")
    parser.add_argument("--json", action="store_true", help="for programs")


def add_validate(commands: Commands) -> None:
    """How ``validate`` is spelled."""
    parser = add(
        commands, "validate", "check energy.json files, ours or published, without a GPU", _validate
    )
    parser.add_argument("paths", type=path, nargs="+", metavar="PATH", help="files or folders")
    parser.add_argument("--profile", choices=_PROFILES, default=_PROFILES[0])
    signers(parser)
    parser.add_argument("--json", action="store_true", help="for programs")


def add_compare(commands: Commands) -> None:
    """How ``compare`` is spelled."""
    parser = add(
        commands,
        "compare",
        "does another report, or what was published, find the same? Ratios to FP16 alone",
        _compare,
    )
    parser.add_argument("here", type=path, metavar="A", help=_SIDE)
    parser.add_argument("there", type=path, metavar="B", nargs="?", help=_SIDE)
    parser.add_argument(
        "--against", choices=("published",), help="the packaged published measurements, for B"
    )
    parser.add_argument("--json", action="store_true", help="for programs")


def _doctor(options: argparse.Namespace) -> int:
    from ecocompute_cube.device.host import package_versions
    from ecocompute_cube.doctor import Machine, as_text, examine

    found = examine(Machine(package_versions()), _needs(options), options.output_dir)
    write(found.model_dump_json(indent=1) + "\n" if options.json else as_text(found))
    return 0 if found.can_measure else NoDevice.exit_status


def _needs(options: argparse.Namespace) -> Needs | Absent:
    """What the plan asks for; nobody needs a plan to have the machine looked at."""
    from ecocompute_cube.doctor import Needs
    from ecocompute_cube.forecast import forecast, to_download
    from ecocompute_cube.model.base import Absent
    from ecocompute_cube.model.plan_file import read_plan

    if options.parameters_file == PLAN and not PLAN.exists():
        return Absent(reason="no plan was named")
    plan = read_plan(options.parameters_file)
    try:
        told = forecast(plan, options.models_dir)
    except EcoError as error:
        return Absent(reason=error.cause)
    models = told.models_bytes if to_download(plan, options.models_dir) else 0
    largest = max(told.prediction.memory_bytes.values())
    return Needs(plan.name, told.prediction.disk_bytes + models, largest, plan.boards)


def _validate(options: argparse.Namespace) -> int:
    from ecocompute_cube.analysis.protocol import Profile
    from ecocompute_cube.report.recompute import recompute
    from ecocompute_cube.validate import (
        as_json,
        as_text,
        exit_status,
        validate_paths,
    )

    profile = Profile(options.profile)
    checked = validate_paths(options.paths, profile, recompute, options.signers)
    write((as_json if options.json else as_text)(checked, profile))
    return exit_status(checked, profile)


def _compare(options: argparse.Namespace) -> int:
    from ecocompute_cube.report.replicate import (
        as_text,
        compare_published,
        compare_reports,
        read_findings,
    )
    from ecocompute_cube.report.write import document_text

    if (options.there is None) == (options.against is None):
        raise UsageError(
            "There must be one thing to compare with.", "Give B, or --against published."
        )
    here = read_findings(options.here, say)
    found = (
        compare_published(here)
        if options.there is None
        else compare_reports(here, read_findings(options.there, say))
    )
    write(document_text(found) if options.json else as_text(found))
    return found.exit_status
