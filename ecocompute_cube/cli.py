"""The ``ecocompute`` command: thin doors, each importing what it needs only when it is opened."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import json
import math
import os
import shlex
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from ecocompute_cube import __version__
from ecocompute_cube.errors import (
    EcoError,
    MeasurementInvalid,
    NoDevice,
    UsageError,
    output_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from ecocompute_cube.doctor import Needs
    from ecocompute_cube.measure import Equipment
    from ecocompute_cube.model.base import Absent
    from ecocompute_cube.model.report import Report

_PLAN: Final = Path("workspace/config/protocol.yaml")
_MODELS: Final = Path("workspace/models")
_RESULTS: Final = Path("workspace/results")
_REPORT: Final = Path("workspace/report")
_SUBMISSION: Final = Path("workspace/submission")

#: A signal to the group and one that docker or an init passes on are one wish to stop.
_ECHO_S: Final = 2.0
_MOST_MINUTES: Final = 1e6  # two years; more is a slip of the pen
_LAYOUTS: Final = ("standard", "mlcommons")
_SIDE: Final = "a report.json, a folder that holds one, or a folder of runs"
_PROFILES: Final = ("v1.1-core", "dataset-eligible")

_EPILOG: Final = """\
exit status: 0 done; 1 checked and found wanting; 2 usage or bad input; 3 no usable GPU or power
reading; 4 model missing or corrupt; 5 measured but invalid; 6 document fails its schema; 7 disk or
output folder; 8 a service that keeps records; 130 interrupted. Options may be written with _ or -.
"""


class _Parser(argparse.ArgumentParser):
    """argparse with our manners: mistakes are UsageErrors that name what was probably meant."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[0].upper()}{message[1:]}.", f"See: {self.prog} --help.")

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Say that nobody knows the first of these words. Raises UsageError."""
        name = words[0].partition("=")[0]
        if not name.startswith("-"):
            raise UsageError(
                f"{self.prog} takes no '{name}' there.",
                f"Write files and folders after their option, as {self.prog} --help shows.",
            )
        close = difflib.get_close_matches(name, self._option_string_actions, n=1)
        meant = f"Did you mean {close[0]}?" if close else f"See: {self.prog} --help."
        raise UsageError(f"{self.prog} has no option {name}.", meant)


if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[_Parser]


def main(
    arguments: Sequence[str] | None = None,
    equipment: Callable[[bool, int], Equipment] | None = None,
) -> int:
    """Run one command; its exit status. ``equipment`` replaces this machine's own."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # an odd locale costs no table
    with _signals_as_interrupt():
        return _ended(arguments, equipment)


def _ended(
    arguments: Sequence[str] | None, equipment: Callable[[bool, int], Equipment] | None
) -> int:
    try:
        options = _parsed(_underscored(sys.argv[1:] if arguments is None else arguments))
        options.equipment = equipment
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except EcoError as error:
        from ecocompute_cube.model.base import printable

        _say(f"error: {printable(error.cause)}\n{printable(error.fix)}")
        return error.exit_status
    except KeyboardInterrupt:
        _say("stopped")
        return 130


@contextlib.contextmanager
def _signals_as_interrupt() -> Iterator[None]:
    """SIGTERM and a closed terminal stop a command as Ctrl-C does; what ``nohup`` ignores stays so.

    The first process of a container must have handlers: the system drops its signals otherwise.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python gives signals to the main thread alone
        return
    last = -math.inf

    def interrupt(number: int, frame: object) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _ECHO_S:
            last = now
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    heeded = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    for number in heeded:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, old in heeded.items():
            signal.signal(number, old)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    first = next(iter(arguments), "--help")
    if not first.startswith("-"):
        _check_command(first)
    elif first.partition("=")[0] not in parser._option_string_actions:
        parser.refuse([first])
    try:
        options, unknown = parser.parse_known_args(arguments)
    finally:
        _print("")  # what --help printed is flushed here, where a closed pipe is no fault
    if unknown:
        options.parser.refuse(unknown)
    return options


def _check_command(name: str) -> None:
    if name not in _COMMANDS:
        close = difflib.get_close_matches(name, _COMMANDS, n=1)
        meant = f"Did you mean {close[0]}?" if close else f"Commands: {', '.join(_COMMANDS)}."
        raise UsageError(f"There is no command '{name}'.", meant)


def _underscored(arguments: Sequence[str]) -> list[str]:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [*map(_option, arguments[:end]), *arguments[end:]]


def _option(text: str) -> str:
    if not text.startswith("--"):
        return text
    name, equals, value = text.partition("=")
    return f"--{name[2:].replace('-', '_')}{equals}{value}"


def _print(text: str) -> None:
    """Write to standard output; a reader who has seen enough (``| head``) is no fault.

    Raises DiskFull or OutputError.
    """
    if sys.stdout is None:  # closed by whoever started us
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout.fileno())
    except OSError as error:
        _discard(sys.stdout.fileno())
        raise output_error(error, "write to standard output") from None


def _say(line: str) -> None:
    """Write to standard error; that nobody reads along must not end a measurement."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr.fileno())


def _discard(descriptor: int) -> None:
    """So that what is still buffered does not complain at the exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _parser() -> _Parser:
    parser = _Parser(
        prog="ecocompute",
        description="Does quantizing a language model save energy on this GPU, by how much, and at "
        "what cost in quality?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ecocompute {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in _COMMANDS.values():
        add(commands)
    return parser


def _add(
    commands: Commands,
    name: str,
    what: str,
    command: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=what, description=what, allow_abbrev=False)
    parser.set_defaults(command=command, parser=parser)
    return parser


def _path(text: str) -> Path:
    """A path that can be named in a document and in a sentence."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"the path {text!a} is not in UTF-8") from None
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def _folder(parser: argparse.ArgumentParser, name: str, default: Path, what: str) -> None:
    parser.add_argument(
        name, type=_path, default=default, metavar="DIR", help=f"{what} (default {default})"
    )


def _plan_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--parameters_file",
        type=_path,
        default=_PLAN,
        metavar="FILE",
        help=f"the plan, in YAML (default {_PLAN})",
    )


def _hub_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hub_cache",
        type=_path,
        metavar="DIR",
        help="a Hugging Face hub cache to take files from, in place of the user's own; only read",
    )


def _measuring(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rehearse", action="store_true", help="decode on the CPU; measure no energy"
    )
    parser.add_argument(
        "--max_minutes",
        type=_minutes,
        metavar="M",
        help="start no block that would not end in time; run again to go on",
    )
    parser.add_argument(
        "--quality_text",
        type=_path,
        metavar="FILE",
        help="a text of yours to score perplexity on, in place of the plan's",
    )


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of minutes")
    return value


def _add_run(commands: Commands) -> None:
    parser = _add(
        commands, "run", "download, measure and report; a rehearsal where there is no GPU", _run
    )
    _plan_file(parser)
    _folder(parser, "--models_dir", _MODELS, "models")
    _hub_cache(parser)
    _folder(parser, "--output_dir", _RESULTS, "results")
    _folder(parser, "--report_dir", _REPORT, "pages")
    _measuring(parser)


def _add_download(commands: Commands) -> None:
    parser = _add(commands, "download", "fetch or build the models a plan names", _download)
    _plan_file(parser)
    _folder(parser, "--models_dir", _MODELS, "where models go")
    _hub_cache(parser)


def _add_measure(commands: Commands) -> None:
    parser = _add(
        commands, "measure", "measure a plan, or go on with an unfinished run of it", _measure
    )
    _plan_file(parser)
    _folder(parser, "--models_dir", _MODELS, "models, as download left them")
    _folder(parser, "--output_dir", _RESULTS, "where runs go, a folder each")
    _measuring(parser)


def _add_report(commands: Commands) -> None:
    parser = _add(commands, "report", "make the pages from every journal in a folder", _report)
    _folder(parser, "--results_dir", _RESULTS, "a run's folder or one that holds runs")
    _folder(parser, "--report_dir", _REPORT, "where pages go")


def _add_plan(commands: Commands) -> None:
    parser = _add(
        commands, "plan", "print arms, order, minutes, memory and disk; load nothing", _plan
    )
    parser.add_argument("file", type=_path, nargs="?", default=_PLAN, help=f"default {_PLAN}")
    _folder(parser, "--models_dir", _MODELS, "models, for their sizes")
    parser.add_argument("--json", action="store_true", help="for programs")


def _add_doctor(commands: Commands) -> None:
    parser = _add(
        commands, "doctor", "can this machine measure, how well, and what is in the way", _doctor
    )
    _plan_file(parser)
    _folder(parser, "--models_dir", _MODELS, "models, for what is still to be downloaded")
    _folder(parser, "--output_dir", _RESULTS, "where runs would go, for the room on its disk")
    parser.add_argument("--json", action="store_true", help="for programs")


def _add_validate(commands: Commands) -> None:
    parser = _add(
        commands, "validate", "check energy.json files, ours or published, without a GPU", _validate
    )
    parser.add_argument("paths", type=_path, nargs="+", metavar="PATH", help="files or folders")
    parser.add_argument("--profile", choices=_PROFILES, default=_PROFILES[0])
    _signers(parser)
    parser.add_argument("--json", action="store_true", help="for programs")


def _signers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--signers",
        type=_path,
        metavar="FILE",
        help="allowed signers, as ssh-keygen knows them: every journal must be signed by one",
    )


def _add_bundle(commands: Commands) -> None:
    parser = _add(
        commands, "bundle", "put results and what cites and checks them in one place", _bundle
    )
    parser.add_argument(
        "results", type=_path, nargs="?", metavar="RESULTS", help=f"default {_RESULTS}"
    )
    parser.add_argument(
        "--out", type=_path, metavar="DIR", help="where to; a zip file if it ends in .zip"
    )
    _folder(parser, "--report_dir", _REPORT, "pages to take if they are of these runs")
    parser.add_argument("--layout", choices=_LAYOUTS, default=_LAYOUTS[0])
    parser.add_argument(
        "--about", type=_path, metavar="FILE", help="title, creators, licence and more, in TOML"
    )
    parser.add_argument("--title", metavar="TEXT", help="in place of one made from the runs")
    parser.add_argument(
        "--creator",
        action="append",
        metavar="NAME",
        help="'Family, Given; ORCID; affiliation'; once for each creator",
    )
    parser.add_argument("--license", metavar="ID", help="of the data, by SPDX (CC-BY-4.0)")
    parser.add_argument("--force", action="store_true", help="replace another bundle")
    parser.add_argument(
        "--check", type=_path, metavar="BUNDLE", help="check a bundle, folder or zip; write nothing"
    )
    _signers(parser)


def _add_upload(commands: Commands) -> None:
    parser = _add(commands, "upload", "bring a bundle to Zenodo: a draft in its sandbox", _upload)
    parser.add_argument("bundle", type=_path, metavar="BUNDLE", help="a folder or a zip file")
    parser.add_argument(
        "--production", action="store_true", help="Zenodo itself, in place of its sandbox"
    )
    parser.add_argument(
        "--publish", action="store_true", help="make it public, which cannot be undone"
    )
    parser.add_argument(
        "--new_version", metavar="RECORD", help="as the next version of a record of yours"
    )


def _add_submit(commands: Commands) -> None:
    parser = _add(
        commands, "submit", "make a contribution to the published dataset; send nothing", _submit
    )
    parser.add_argument(
        "place", type=_path, nargs="?", default=_RESULTS, metavar="PATH", help=f"default {_RESULTS}"
    )
    _folder(parser, "--out", _SUBMISSION, "where it goes")
    parser.add_argument("--name", metavar="NAME", help="who contributes")
    parser.add_argument("--contact", metavar="TEXT", help="how they are reached")
    parser.add_argument("--archive", metavar="URL", help="where the bundle can be had: a DOI")
    parser.add_argument("--force", action="store_true", help="replace what is there")


def _add_compare(commands: Commands) -> None:
    parser = _add(
        commands,
        "compare",
        "does another report, or what was published, find the same? Ratios to FP16 alone",
        _compare,
    )
    parser.add_argument("here", type=_path, metavar="A", help=_SIDE)
    parser.add_argument("there", type=_path, metavar="B", nargs="?", help=_SIDE)
    parser.add_argument(
        "--against", choices=("published",), help="the packaged published measurements, for B"
    )
    parser.add_argument("--json", action="store_true", help="for programs")


_COMMANDS: Final[dict[str, Callable[[Commands], None]]] = {
    "run": _add_run,
    "download": _add_download,
    "measure": _add_measure,
    "report": _add_report,
    "plan": _add_plan,
    "doctor": _add_doctor,
    "validate": _add_validate,
    "bundle": _add_bundle,
    "upload": _add_upload,
    "submit": _add_submit,
    "compare": _add_compare,
}


def _download(options: argparse.Namespace) -> int:
    from ecocompute_cube.download import HubSettings, Origins, download
    from ecocompute_cube.model.plan_file import read_plan

    plan = read_plan(options.parameters_file)
    origins = Origins(hub=HubSettings.from_environment(cache=options.hub_cache))
    download(plan, options.models_dir, _say, origins)
    return 0


def _measure(options: argparse.Namespace) -> int:
    from ecocompute_cube.report.text import as_text

    report = _measured(options)
    _print("\n" + as_text(report))
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
    return write_energy(measure(request, options.equipment or real_equipment, _say))


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

    written = write_report(options.results_dir, options.report_dir, _say)
    for trouble in written.unreadable:
        _say(f"not read: {trouble}")
    pages = [as_text(report) for report in written.reports]
    _print("\n".join(filter(None, [*pages, merged_text(written.together)])))
    places = shlex.join([str(options.results_dir), "--report_dir", str(options.report_dir)])
    _say(f"to archive, cite and check them: ecocompute bundle {places} --out bundle.zip")
    return 0


def _run(options: argparse.Namespace) -> int:
    from ecocompute_cube.device.presence import driver_present

    if not options.rehearse and not driver_present():
        _say("No NVIDIA driver on this machine: this is a rehearsal, no energy will be measured.")
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
    _print(json.dumps(told.as_json(), indent=1) + "\n" if options.json else told.text())
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from ecocompute_cube.device.host import package_versions
    from ecocompute_cube.doctor import Machine, as_text, examine

    found = examine(Machine(package_versions()), _needs(options), options.output_dir)
    _print(found.model_dump_json(indent=1) + "\n" if options.json else as_text(found))
    return 0 if found.can_measure else NoDevice.exit_status


def _needs(options: argparse.Namespace) -> Needs | Absent:
    """What the plan asks for; nobody needs a plan to have the machine looked at."""
    from ecocompute_cube.doctor import Needs
    from ecocompute_cube.forecast import forecast, to_download
    from ecocompute_cube.model.base import Absent
    from ecocompute_cube.model.plan_file import read_plan

    if options.parameters_file == _PLAN and not _PLAN.exists():
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
    _print((as_json if options.json else as_text)(checked, profile))
    return exit_status(checked, profile)


def _bundle(options: argparse.Namespace) -> int:
    if options.check is not None:
        return _check_bundle(options)
    from ecocompute_cube.archive.about import Wishes, parse_creator, read_wishes
    from ecocompute_cube.archive.bundle import Request, as_text, bundle
    from ecocompute_cube.model.bundle import Layout

    if options.out is None:
        raise UsageError("Where the bundle goes is not said.", "Add --out DIR, or --out FILE.zip.")
    wishes = read_wishes(options.about) if options.about else Wishes()
    people = tuple(map(parse_creator, options.creator or ()))
    wishes = wishes._replace(
        title=options.title or wishes.title,
        creators=people or wishes.creators,
        license=options.license or wishes.license,
    )
    request = Request(
        results=options.results or _RESULTS,
        out=options.out,
        report_dir=options.report_dir,
        layout=Layout(options.layout),
        wishes=wishes,
        force=options.force,
    )
    done = bundle(request, _say)
    _print(as_text(done, options.out))
    return 0


def _check_bundle(options: argparse.Namespace) -> int:
    from ecocompute_cube.archive.check import as_text, check

    if options.out is not None or options.results is not None:
        raise UsageError(
            "--check looks at one bundle and makes none.", "Type: ecocompute bundle --check BUNDLE"
        )
    checked = check(options.check, options.signers, _say)
    _print(as_text(checked))
    return checked.exit_status


def _upload(options: argparse.Namespace) -> int:
    from ecocompute_cube.archive.bar import bar
    from ecocompute_cube.archive.service import SANDBOX, ZENODO, Client, token_of
    from ecocompute_cube.archive.upload import Wanted, as_text, upload

    service = ZENODO if options.production else SANDBOX
    client = Client(service, token_of(service, os.environ), _say)
    wanted = Wanted(options.bundle, options.publish, options.new_version)
    with contextlib.closing(client):
        done = upload(wanted, client, _say, bar(sys.stderr, _say))
    _print(as_text(done))
    return 0


def _submit(options: argparse.Namespace) -> int:
    from ecocompute_cube.archive.community import Person
    from ecocompute_cube.archive.submit import as_text, submit

    given = {key: getattr(options, key) for key in Person._fields}
    person = Person(**{key: text for key, text in given.items() if text})
    done = submit(options.place, options.out, person, _say, force=options.force)
    _print(as_text(done, options.out))
    return 0


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
    here = read_findings(options.here, _say)
    found = (
        compare_published(here)
        if options.there is None
        else compare_reports(here, read_findings(options.there, _say))
    )
    _print(document_text(found) if options.json else as_text(found))
    return found.exit_status


if __name__ == "__main__":
    raise SystemExit(main())
