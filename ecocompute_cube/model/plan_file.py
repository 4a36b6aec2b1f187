"""Reading a plan from YAML, with errors a person can act on."""

from __future__ import annotations

import datetime
import difflib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ValidationError

from ecocompute_cube.errors import PlanError
from ecocompute_cube.model.around import Cooldown, Quality, Warmup
from ecocompute_cube.model.base import printable
from ecocompute_cube.model.hub_reference import HUB_PREFIX, meant_hub
from ecocompute_cube.model.plan import (
    EMBEDDED,
    RANDOM_PREFIX,
    ContrastChoice,
    Plan,
    Protocol,
    Selector,
    Workload,
)
from ecocompute_cube.model.stop import AdaptiveStop, FixedStop

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pydantic_core import ErrorDetails
    from yaml import MappingNode, Node, ScalarNode

#: Which record lies behind a key, so that a misspelt key can be answered with its neighbours.
_BEHIND: Final[dict[str, type[BaseModel]]] = {
    "protocol": Protocol,
    "warmup": Warmup,
    "cooldown": Cooldown,
    "fixed": FixedStop,
    "adaptive": AdaptiveStop,
    "quality": Quality,
    "workloads": Workload,
    "contrasts": ContrastChoice,
    "arm": Selector,
    "against": Selector,
}


_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_MOST_BYTES: Final = 2**18  # a plan of three thousand workloads has half of it
_MOST_DIGITS: Final = 18  # any such number fits 64 bits, and a computation in floating point
_QUOTED: Final = 60  # characters of a wrong value that help; a longer one only hides the sentence


def read_plan(path: Path) -> Plan:
    """The plan in a YAML file, with local models and texts resolved beside that file.

    Raises PlanError with the place and the remedy for anything that is not a plan.
    """
    text = _as_json(_load_yaml(path), path.name)
    try:
        plan = Plan.model_validate_json(text)
        plan.expanded_contrasts()
        return _resolve(plan, path.parent)
    except ValidationError as error:
        raise _explain(path, error) from None


def _as_json(data: dict[str, object], name: str) -> str:
    try:
        return json.dumps(data, default=_date)
    except (TypeError, ValueError) as error:
        raise PlanError(f"{name} holds what no plan has: {error}.", "Take it out.") from None


def _date(value: object) -> str:
    """A day, for a plan named by one; nothing else that YAML knows is ever meant."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__}")


def _resolve(plan: Plan, folder: Path) -> Plan:
    data = plan.model_dump(mode="json")
    data["models"] = [_model_beside(model, folder) for model in plan.models]
    if plan.quality.text != "builtin":
        data["quality"]["text"] = _beside(plan.quality.text, folder)
    return Plan.model_validate_json(json.dumps(data))


def scored_on(plan: Plan, text: Path) -> Plan:
    """The plan, its perplexity scored, on another text; a path as the caller's shell means it."""
    quality = plan.quality.model_copy(update={"text": str(text.absolute()), "enabled": True})
    return plan.model_copy(update={"quality": quality})


def _model_beside(model: str, folder: Path) -> str:
    if model == EMBEDDED or model.startswith((RANDOM_PREFIX, HUB_PREFIX)):
        return model
    meant = meant_hub(model)
    if meant is not None and not (folder / model).exists():
        raise PlanError(f"'{printable(model)}' is no folder.", f"Did you mean {meant}?")
    return _beside(model.removeprefix("local:"), folder)


def _beside(path: str, folder: Path) -> str:
    """An absolute path, so that no folder's name is taken for one of the words of a plan."""
    try:
        given = Path(path).expanduser()
    except RuntimeError:
        raise PlanError(f"There is no home folder for '{path}'.", "Write the path out.") from None
    if not path or "\0" in path:
        raise PlanError(f"{path!r} is no path.", "Name a folder or a file beside the plan.")
    return os.path.normpath((folder / given).absolute())


def _load_yaml(path: Path) -> dict[str, object]:
    try:
        text = _read_text(path)
    except IsADirectoryError:
        raise PlanError(
            f"'{path.name}' is a folder, not a parameters file.",
            "Give a YAML file with --parameters_file, for example workspace/config/protocol.yaml.",
        ) from None
    except FileNotFoundError:
        raise PlanError(
            f"There is no parameters file '{printable(str(path))}'.",
            "Copy workspace/config/protocol.yaml, or name an existing file with --parameters_file.",
        ) from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise PlanError(
            f"The parameters file '{printable(path.name)[:_QUOTED]}' cannot be read ({reason}).",
            "Give a readable UTF-8 YAML file.",
        ) from None
    return _parse_yaml(text, path.name)


def _read_text(path: Path) -> str:
    """Raises OSError, ValueError for what is no text, PlanError for what does not end in time."""
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise PlanError(
            f"'{printable(path.name)[:_QUOTED]}' is larger than any plan "
            f"({_MOST_BYTES // 1024} KiB).",
            "Start from workspace/config/protocol.yaml.",
        )
    return data.decode("utf-8-sig")


def _parse_yaml(text: str, name: str) -> dict[str, object]:
    import yaml

    class StrictLoader(yaml.SafeLoader):
        """YAML 1.1 safe loader without its surprises: repeated keys, aliases, 010 for eight."""

        def compose_node(self, parent: Node | None, index: int) -> Node | None:
            if self.check_event(yaml.events.AliasEvent):
                line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]  # PyYAML has none
                raise PlanError(
                    f"{name}: line {line} points back with '*'; a plan has no aliases.",
                    "Write the value out.",
                )
            return super().compose_node(parent, index)

    def number(loader: StrictLoader, node: ScalarNode) -> int:
        if not _DECIMAL.fullmatch(node.value):
            raise PlanError(
                f"{name}: line {node.start_mark.line + 1}: '{node.value[:_QUOTED]}' is not a "
                "decimal number.",
                "Write it with the digits 0 to 9 and no leading zero.",
            )
        if len(node.value) > _MOST_DIGITS:
            raise PlanError(
                f"{name}: line {node.start_mark.line + 1}: a number of {len(node.value)} digits is "
                "beyond all that can be run.",
                "Write a smaller one.",
            )
        return int(node.value)

    def mapping(loader: StrictLoader, node: MappingNode) -> dict[Hashable, object]:
        keys: set[Hashable] = set()
        for key in (loader.construct_object(key) for key, _ in node.value):
            if key in keys:
                line = node.start_mark.line + 1
                raise PlanError(
                    f"{name}: the key '{key}' stands twice in the block at line {line}.",
                    "Keep one of them.",
                )
            keys.add(key)
        return dict(loader.construct_pairs(node, deep=True))

    StrictLoader.add_constructor("tag:yaml.org,2002:map", mapping)
    StrictLoader.add_constructor("tag:yaml.org,2002:int", number)
    try:
        data = yaml.load(text, Loader=StrictLoader)  # noqa: S506 (a subclass of SafeLoader)
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise PlanError(f"{name} is not valid YAML: {_one_line(error)}.", "Correct it.") from None
    except RecursionError:
        raise PlanError(f"{name} nests too deep for a plan.", "Take the brackets out.") from None
    if not isinstance(data, dict):
        raise PlanError(
            f"{name} does not hold a mapping of plan keys.",
            "Start from workspace/config/protocol.yaml.",
        )
    return data


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _explain(path: Path, error: ValidationError) -> PlanError:
    details = error.errors()
    place = ".".join(str(part) for part in details[0]["loc"]) or "the plan"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    wrong = f"{path.name}: {place}: {_wrong(details[0])}{more}"
    return PlanError(printable(wrong if wrong.endswith("?") else f"{wrong}."), _remedy(details[0]))


def _wrong(detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        return "there is no such key"
    if detail["type"] == "union_tag_not_found":
        return f"it does not say its {detail['ctx']['discriminator']}"
    if detail["type"] == "json_invalid":
        return "there is text in it that is not Unicode"
    given = detail["input"]
    shown = f", got {repr(given)[:_QUOTED]}" if isinstance(given, str | int | float | bool) else ""
    return detail["msg"].removeprefix("Value error, ").rstrip(".") + shown


def _remedy(detail: ErrorDetails) -> str:
    if detail["type"] == "missing":
        return "Add it; docs/formats.md lists what each key accepts."
    if detail["type"] != "extra_forbidden":
        return "Correct that value; docs/formats.md lists what each key accepts."
    known = _fields_at(detail["loc"][:-1])
    close = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"Known keys there: {', '.join(known)}."


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    model: type[BaseModel] = Plan
    for part in location:
        model = _BEHIND.get(str(part), model)
    return sorted(model.model_fields)
