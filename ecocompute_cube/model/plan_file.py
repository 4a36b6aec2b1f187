"""Reading a plan from YAML, with errors a person can act on."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ValidationError

from ecocompute_cube.errors import PlanError
from ecocompute_cube.model.plan import (
    EMBEDDED,
    RANDOM_PREFIX,
    ContrastChoice,
    Plan,
    Protocol,
    Quality,
    Selector,
    Warmup,
    Workload,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pydantic_core import ErrorDetails
    from yaml import MappingNode

#: Which record lies behind a key, so that a misspelt key can be answered with its neighbours.
_BEHIND: Final[dict[str, type[BaseModel]]] = {
    "protocol": Protocol,
    "warmup": Warmup,
    "quality": Quality,
    "workloads": Workload,
    "contrasts": ContrastChoice,
    "arm": Selector,
    "against": Selector,
}


def read_plan(path: Path) -> Plan:
    """The plan in a YAML file, with local models and texts resolved beside that file.

    Raises PlanError with the place and the remedy for anything that is not a plan.
    """
    data = _load_yaml(path)
    try:
        plan = Plan.model_validate_json(json.dumps(data, default=str))
        plan.expanded_contrasts()
    except ValidationError as error:
        raise _explain(path, error) from None
    return _resolve(plan, path.parent)


def _resolve(plan: Plan, folder: Path) -> Plan:
    data = plan.model_dump(mode="json")
    data["models"] = [_beside(model, folder) for model in plan.models]
    if plan.quality.text != "builtin":
        data["quality"]["text"] = str(folder / plan.quality.text)
    return Plan.model_validate_json(json.dumps(data))


def _beside(model: str, folder: Path) -> str:
    if model == EMBEDDED or model.startswith(RANDOM_PREFIX):
        return model
    return str(folder / Path(model.removeprefix("local:")).expanduser())


def _load_yaml(path: Path) -> dict[str, object]:
    if path.is_dir():
        raise PlanError(
            f"'{path.name}' is a folder, not a parameters file.",
            "Give a YAML file with --parameters_file, for example workspace/config/default.yaml.",
        )
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PlanError(
            f"There is no parameters file '{path.name}' at the place given.",
            "Copy workspace/config/default.yaml, or name an existing file with --parameters_file.",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(
            f"The parameters file '{path.name}' cannot be read ({error}).",
            "Give a readable UTF-8 YAML file.",
        ) from None
    return _parse_yaml(text, path.name)


def _parse_yaml(text: str, name: str) -> dict[str, object]:
    import yaml

    class StrictLoader(yaml.SafeLoader):
        """YAML 1.1 safe loader that refuses a key given twice."""

    def mapping(loader: StrictLoader, node: MappingNode) -> dict[Hashable, object]:
        keys = [loader.construct_object(key) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                line = node.start_mark.line + 1
                raise PlanError(
                    f"{name}: the key '{key}' stands twice in the block at line {line}.",
                    "Keep one of them.",
                )
        return dict(loader.construct_pairs(node, deep=True))

    StrictLoader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        data = yaml.load(text, Loader=StrictLoader)  # noqa: S506 (a subclass of SafeLoader)
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise PlanError(f"{name} is not valid YAML: {_one_line(error)}.", "Correct it.") from None
    if not isinstance(data, dict):
        raise PlanError(
            f"{name} does not hold a mapping of plan keys.",
            "Start from workspace/config/default.yaml.",
        )
    return data


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _explain(path: Path, error: ValidationError) -> PlanError:
    details = error.errors()
    place = ".".join(str(part) for part in details[0]["loc"]) or "the plan"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return PlanError(f"{path.name}: {place}: {_wrong(details[0])}{more}.", _remedy(details[0]))


def _wrong(detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        return "there is no such key"
    given = detail["input"]
    shown = f", got {given!r}" if isinstance(given, str | int | float | bool) else ""
    return detail["msg"].removeprefix("Value error, ").rstrip(".") + shown


def _remedy(detail: ErrorDetails) -> str:
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
