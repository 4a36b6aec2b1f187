"""lint: what was measured to waste energy, found in code."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.commands.terminal import say, write
from ecocompute_cube.commands.words import add, path
from ecocompute_cube.errors import UsageError

if TYPE_CHECKING:
    from ecocompute_cube.commands.words import Commands
    from ecocompute_cube.lint.found import Found, Level
    from ecocompute_cube.lint.run import Asked
    from ecocompute_cube.lint.settings import Settings

_FORMATS: Final = ("text", "json", "sarif", "github", "markdown", "junit")
_LEVELS: Final = ("error", "warning", "note", "never")
_RUNTIMES: Final = ("eager", "loop", "static", "graph", "compiled")
_MOST_NAMED: Final = 50  # files that were not read; --format json names them all


def add_lint(commands: Commands) -> None:
    """How ``lint`` is spelled."""
    what = "find what was measured to waste energy in code and configurations; runs nothing"
    parser = add(commands, "lint", what, _lint)
    parser.add_argument("paths", type=path, nargs="*", metavar="PATH", help="files and folders")
    parser.add_argument("--gpu", metavar="NAME", help="the card it will run on: 'RTX 4090', ada")
    parser.add_argument("--runtime", choices=_RUNTIMES, help="how it will decode there")
    parser.add_argument("--format", choices=_FORMATS, default=_FORMATS[0], help="what is printed")
    parser.add_argument(
        "--output", type=path, metavar="FILE", help="where to, in place of printing"
    )
    parser.add_argument("--fail_on", choices=_LEVELS, help="what ends it with 1 (warning)")
    parser.add_argument("--diff", metavar="REF", help="only lines added since this commit")
    parser.add_argument(
        "--fix", action="store_true", help="remove what has no effect or only costs"
    )
    parser.add_argument("--baseline", type=path, metavar="FILE", help="findings that are known")
    parser.add_argument(
        "--write_baseline", type=path, metavar="FILE", help="write what is found there, and end"
    )
    parser.add_argument("--config", type=path, metavar="FILE", help="in place of pyproject.toml")
    parser.add_argument("--large", action="store_true", help="also files above 1 MB")
    parser.add_argument("--lsp", action="store_true", help="serve an editor; needs the extra lsp")


def _lint(options: argparse.Namespace) -> int:
    from ecocompute_cube.lint.settings import settings

    ours = settings(Path(), options.config)
    if options.lsp:
        from ecocompute_cube.lint.server import serve

        return serve(_board(options, ours), options.runtime or ours.runtime, ours)
    asked = _asked(options, ours)
    found = _found(asked)
    if options.fix:
        found = _fixed(asked, found)
    _say_skipped(found, options.format)
    if options.write_baseline is not None:
        return _baseline(options.write_baseline, found)
    _put(found, options)
    level: Level = options.fail_on or ours.fail_on
    return 0 if level == "never" else int(found.at_least(level) > 0)


def _found(asked: Asked) -> Found:
    from ecocompute_cube.lint.run import lint

    return lint(asked)


def _board(options: argparse.Namespace, ours: Settings) -> str | None:
    name = options.gpu or ours.gpu
    if name is None or name.casefold() == "unknown":
        return None
    from ecocompute_cube.lint.evidence import board

    return board(name)


def _asked(options: argparse.Namespace, ours: Settings) -> Asked:
    from ecocompute_cube.lint.baseline import read_baseline
    from ecocompute_cube.lint.changed import added_lines
    from ecocompute_cube.lint.run import Asked
    from ecocompute_cube.lint.sources import LARGEST

    if ours.runtime is not None and ours.runtime not in _RUNTIMES:
        raise UsageError(
            f"runtime: no runtime '{ours.runtime[:40]}' is known.",
            f"One of: {', '.join(_RUNTIMES)}.",
        )
    known = options.baseline or ours.baseline
    if options.write_baseline is not None:
        known = None
    return Asked(
        paths=tuple(options.paths) or (Path(),),
        gpu=_board(options, ours),
        runtime=options.runtime or ours.runtime,
        largest=None if options.large else LARGEST,
        excluded=ours.excluded,
        ignored=ours.ignored,
        changed=None if options.diff is None else added_lines(options.diff, Path()),
        known=None if known is None else read_baseline(known),
    )


def _fixed(asked: Asked, found: Found) -> Found:
    """Edit what may be edited, and look again."""
    from ecocompute_cube.lint.fix import fix_file

    by_path: dict[str, list[int]] = {}
    for n, each in enumerate(found.findings):
        if each.edits:
            by_path.setdefault(each.path, []).append(n)
    made = 0
    for name, places in by_path.items():
        made += fix_file(Path(name), [found.findings[n] for n in places])
    if made:
        say(f"fixed: {made}")
    return _found(asked) if made else found


def _say_skipped(found: Found, form: str) -> None:
    if form == "json" or not found.skipped:
        return
    from ecocompute_cube.model.base import printable

    for each in found.skipped[:_MOST_NAMED]:
        say(f"not read: {printable(each.path)}: {each.reason}")
    if len(found.skipped) > _MOST_NAMED:
        say(f"not read: {len(found.skipped) - _MOST_NAMED} more; --format json names them all")


def _baseline(file: Path, found: Found) -> int:
    from ecocompute_cube.lint.baseline import baseline_text
    from ecocompute_cube.model.files import write_whole

    write_whole(file, baseline_text(found.findings).encode())
    say(f"{len(found.findings)} findings are known from now on: {file}")
    return 0


def _put(found: Found, options: argparse.Namespace) -> None:
    from ecocompute_cube.lint.formats import written

    text = written(found, options.format)
    if options.output is None:
        write(text)
        return
    from ecocompute_cube.model.files import write_whole

    write_whole(options.output, text.encode("utf-8", "backslashreplace"))
