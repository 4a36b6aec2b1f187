"""What a project says of itself in pyproject.toml: card and runtime, and what to leave alone."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ecocompute_cube.errors import UsageError
from ecocompute_cube.lint.found import LEVELS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ecocompute_cube.lint.found import Level

NAME: Final = "pyproject.toml"
_KEYS: Final = ("ignore", "exclude", "per-path-ignores", "baseline", "fail-on")


class Settings(NamedTuple):
    """Of one project."""

    gpu: str | None = None  #: as written
    runtime: str | None = None
    ignore: tuple[str, ...] = ()  #: codes
    exclude: tuple[str, ...] = ()  #: patterns of paths
    per_path: tuple[tuple[str, tuple[str, ...]], ...] = ()
    baseline: Path | None = None
    fail_on: Level = "warning"
    root: Path = Path()  #: patterns are relative to it

    def excluded(self, name: str) -> bool:
        """Whether a path, or all below it, is left alone."""
        return any(_matches(name, pattern) for pattern in self.exclude)

    def ignored(self, name: str, code: str) -> bool:
        """Whether a rule is silent in a file."""
        if code in self.ignore:
            return True
        return any(code in codes and _matches(name, pattern) for pattern, codes in self.per_path)


def _matches(name: str, pattern: str) -> bool:
    """``*`` also goes through folders; a folder's name stands for all below it."""
    bare = pattern.rstrip("/")
    path = name.rstrip("/")
    return (
        fnmatch.fnmatchcase(path, bare)
        or fnmatch.fnmatchcase(path, f"{bare}/*")
        or (bare.startswith("**/") and _matches(name, bare[3:]))
        or (bare.endswith("/**") and path == bare[:-3])
    )


def settings(start: Path, file: Path | None = None) -> Settings:
    """Of the nearest pyproject.toml above a folder, or of this file. Raises UsageError."""
    path = file or _nearest(start)
    if path is None:
        return Settings()
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(
            f"{path.name} cannot be read ({error}).", "Repair it, or name another by --config."
        ) from None
    ours = document.get("tool", {}).get("ecocompute", {})
    if not isinstance(ours, dict):
        raise UsageError("tool.ecocompute is no table.", "See docs/lint.md for what it holds.")
    return _read(ours, path.parent)


def _nearest(start: Path) -> Path | None:
    here = start.absolute()
    for folder in (here, *here.parents):
        if (folder / NAME).is_file():
            return folder / NAME
    return None


def _read(ours: Mapping[str, Any], root: Path) -> Settings:
    table = ours.get("lint", {})
    if not isinstance(table, dict):
        raise UsageError("tool.ecocompute.lint is no table.", "See docs/lint.md.")
    for key in table:
        if key not in _KEYS:
            raise UsageError(
                f"tool.ecocompute.lint has no '{key}'.", f"It may hold: {', '.join(_KEYS)}."
            )
    per_path = table.get("per-path-ignores", {})
    if not isinstance(per_path, dict):
        raise UsageError("per-path-ignores is no table.", 'Write: "examples/**" = ["ECO105"].')
    baseline = _text(table, "baseline")
    return Settings(
        gpu=_text(ours, "gpu"),
        runtime=_text(ours, "runtime"),
        ignore=codes(_texts(table, "ignore"), "ignore"),
        exclude=_texts(table, "exclude"),
        per_path=tuple(
            (pattern, codes(_texts(per_path, pattern), pattern)) for pattern in per_path
        ),
        baseline=root / baseline if baseline else None,
        fail_on=_level(_text(table, "fail-on")),
        root=root,
    )


def _level(told: str | None) -> Level:
    for level in LEVELS:
        if told in (level, None):
            return "warning" if told is None else level
    raise UsageError(f"fail-on: no severity '{told}'.", f"One of: {', '.join(LEVELS)}.")


def _text(table: Mapping[str, Any], key: str) -> str | None:
    value = table.get(key)
    if value is None or isinstance(value, str):
        return value
    raise UsageError(f"{key} in pyproject.toml is no text.", f'Write: {key} = "…".')


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise UsageError(f"{key} in pyproject.toml is no list of texts.", f'Write: {key} = ["…"].')


def codes(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Codes of rules. Raises UsageError for one that does not exist."""
    if not names:
        return ()
    from ecocompute_cube.lint.rules import BY_CODE

    for name in names:
        if name not in BY_CODE:
            raise UsageError(
                f"{where}: there is no rule '{name[:40]}'.", f"Known: {', '.join(BY_CODE)}."
            )
    return tuple(names)
