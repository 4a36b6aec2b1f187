"""run, download, measure, report and plan: from a question to its answer."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ecocompute_cube.commands.terminal import say, write
from ecocompute_cube.commands.words import (
    MODELS,
    PLAN,
    REPORT,
    RESULTS,
    add,
    folder,
    hub_cache,
    measuring,
    path,
    plan_file,
)
from ecocompute_cube.errors import MeasurementInvalid

if TYPE_CHECKING:
    from ecocompute_cube.commands.words import Commands
    from ecocompute_cube.model.report import Report


def add_run(commands: Commands) -> None:
    """How ``run`` is spelled."""
    parser = add(
        commands, "run", "download, measure and report; a rehearsal where there is no GPU", _run
    )
    plan_file(parser)
    folder(parser, "--models_dir", MODELS, "models")
    hub_cache(parser)
    folder(parser, "--output_dir", RESULTS, "results")
    folder(parser, "--report_dir", REPORT, "pages")
    measuring(parser)


def add_download(commands: Commands) -> None:
    """How ``download`` is spelled."""
    parser = add(commands, "download", "fetch or build the models a plan names", _download)
    plan_file(parser)
    folder(parser, "--models_dir", MODELS, "where models go")
    hub_cache(parser)


def add_measure(commands: Commands) -> None:
    """How ``measure`` is spelled."""
    parser = add(
        commands, "measure", "measure a plan, or go on with an unfinished run of it", _measure
    )
    plan_file(parser)
    folder(parser, "--models_dir", MODELS, "models, as download left them")
    folder(parser, "--output_dir", RESULTS, "where runs go, a folder each")
    measuring(parser)


def add_report(commands: Commands) -> None:
    """How ``report`` is spelled."""
    parser = add(commands, "report", "make the pages from every journal in a folder", _report)
    folder(parser, "--results_dir", RESULTS, "a run's folder or one that holds runs")
    folder(parser, "--report_dir", REPORT, "where pages go")


def add_plan(commands: Commands) -> None:
    """How ``plan`` is spelled."""
    parser = add(
        commands, "plan", "print arms, order, minutes, memory and disk; load nothing", _plan
    )
    parser.add_argument("file", type=path, nargs="?", default=PLAN, help=f"default {PLAN}")
    folder(parser, "--models_dir", MODELS, "models, for their sizes")
    parser.add_argument("--json", action="store_true", help="for programs")


def _download(options: argparse.Namespace) -> int:
    from ecocompute_cube.download import HubSettings, Origins, download
    from ecocompute_cube.model.plan_file import read_plan

    plan = read_plan(options.parameters_file)
    origins = Origins(hub=HubSettings.from_environment(cache=options.hub_cache))
    download(plan, options.models_dir, say, origins)
    return 0


def _measure(options: argparse.Namespace) -> int:
    from ecocompute_cube.report.text import as_text

    report = _measured(options)
    write("\n" + as_text(report))
    _refuse_empty(report, options.max_minutes)
    return 0


def _measured(options: argparse.Namespace) -> Report:
    from ecocompute_cube.measure import Request, measure, real_equipment
    from ecocompute_cube.model.plan_file import read_plan, scored_on
    from ecocompute_cube.report.write import write_energy

    plan = read_plan(options.parameters_file)
    request = Request(
        plan=scored_on(plan, options.quality_text) if options.quality_text else plan,
        models_dir=options.models_dir,
        output_dir=options.output_dir,
        rehearse=options.rehearse,
        max_minutes=options.max_minutes,
    )
    return write_energy(measure(request, options.equipment or real_equipment, say))


def _refuse_empty(report: Report, max_minutes: float | None) -> None:
    from ecocompute_cube.model.base import present

    if any(present(arm.tokens_per_s if report.rehearsal else arm.energy) for arm in report.arms):
        return
    told = [f for f in report.findings if f.effect == "invalid" and f.code != "rehearsal"]
    if told:
        raise MeasurementInvalid(f"No arm gave a valid number: {told[0].cause}", told[0].fix)
    if max_minutes is None:
        raise MeasurementInvalid("No block was finished.", "Run the same command again to go on.")
    raise MeasurementInvalid(
        f"No block was finished in {max_minutes:g} minutes.",
        "Give more --max_minutes, or none, with the same command to go on.",
    )


def _report(options: argparse.Namespace) -> int:
    from ecocompute_cube.report.merged_text import merged_text
    from ecocompute_cube.report.text import as_text
    from ecocompute_cube.report.write import write_report

    written = write_report(options.results_dir, options.report_dir, say)
    for trouble in written.unreadable:
        say(f"not read: {trouble}")
    pages = [as_text(report) for report in written.reports]
    write("\n".join(filter(None, [*pages, merged_text(written.together)])))
    places = shlex.join([str(options.results_dir), "--report_dir", str(options.report_dir)])
    say(f"to archive, cite and check them: ecocompute bundle {places} --out bundle.zip")
    return 0


def _run(options: argparse.Namespace) -> int:
    from ecocompute_cube.device.presence import driver_present

    if not options.rehearse and not driver_present():
        say("No NVIDIA driver on this machine: this is a rehearsal, no energy will be measured.")
        options.rehearse = True
    if not options.rehearse and options.equipment is None:
        _require_board(options.parameters_file)  # before hours of downloading
    options.results_dir = options.output_dir
    _download(options)
    report = _measured(options)
    _report(options)
    _refuse_empty(report, options.max_minutes)
    return 0


def _require_board(plan_file: Path) -> None:
    """See that what the plan wants to measure could be. Raises PlanError (2), NoDevice (3)."""
    from ecocompute_cube.device.nvml import require_boards
    from ecocompute_cube.model.plan import Mode
    from ecocompute_cube.model.plan_file import read_plan

    plan = read_plan(plan_file)
    if plan.protocol.mode is not Mode.REHEARSAL:
        require_boards(plan.boards)


def _plan(options: argparse.Namespace) -> int:
    from ecocompute_cube.forecast import forecast
    from ecocompute_cube.model.plan_file import read_plan

    told = forecast(read_plan(options.file), options.models_dir)
    write(json.dumps(told.as_json(), indent=1) + "\n" if options.json else told.text())
    return 0
