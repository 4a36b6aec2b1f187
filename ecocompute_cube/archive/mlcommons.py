"""The tree of MLPerf inference submissions, for those whose tools read it. It is no submission.

    open/SUBMITTER/systems/SYSTEM.json
    open/SUBMITTER/results/SYSTEM/BENCHMARK/SCENARIO/{energy.json, measurements.json, …}

There are no LoadGen logs, for none was run, and there is never a folder ``power``: that name is for
meters at the wall. Names of keys are those of the public rules of mlcommons/inference, v6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ecocompute_cube.analysis.documents import at
from ecocompute_cube.archive.describe import NOT_MLPERF
from ecocompute_cube.archive.words import as_json, one_line
from ecocompute_cube.model.base import Absent, present, sha256_hex
from ecocompute_cube.model.bundle import POWER_FOLDER
from ecocompute_cube.model.plan import model_slug, slug

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.archive.computed import Energy
    from ecocompute_cube.archive.runs import Run
    from ecocompute_cube.model.journal import SessionOpened
    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm

Json = dict[str, Any]

_UNKNOWN: Final = "N/A"
_NO_MLPERF: Final = (
    f"MLCommons-style layout: {NOT_MLPERF}. Result not verified by MLCommons Association."
)
_LONGEST: Final = 100  # characters of a folder's name


def submitter_folder(name: str) -> str:
    """``open/NAME``, from any name."""
    return f"open/{_submitter(name)}"


def data_folder(name: str) -> str:
    """Where evidence and pages lie in this layout."""
    return f"{submitter_folder(name)}/documentation/ecocompute/"


def tree(submitter: str, runs: Sequence[Run], energies: Sequence[Energy]) -> dict[str, bytes]:
    """The bytes of each file of the tree."""
    top = submitter_folder(submitter)
    made = {
        f"{top}/model_mapping.json": as_json({}),  # no model here is one of MLPerf's
        f"{top}/documentation/README.md": _note("Evidence, report and schemas: ecocompute/."),
    }
    found = {(energy.run, energy.arm): energy for energy in energies}
    for run in runs:
        for arm in run.opened.plan.expanded():
            if energy := found.get((run.folder, arm.id)):
                made |= _result(top, submitter, run, arm, energy)
    return made


def _submitter(name: str) -> str:
    """A name as the tree has it: its Latin letters, or a piece of its hash where they are none."""
    spelt = slug(name)
    if spelt == slug("") or spelt.casefold() == POWER_FOLDER:
        return f"submitter-{sha256_hex(name.encode())[:8]}"
    return _short(spelt)


def _result(top: str, submitter: str, run: Run, arm: Arm, energy: Energy) -> dict[str, bytes]:
    manifest = next(m for m in run.opened.models if m.reference == arm.model)
    system, benchmark = _system_name(run, arm), _benchmark(arm)
    place = f"{top}/results/{system}/{benchmark}/{_scenario(arm)}"
    return {
        f"{top}/systems/{system}.json": as_json(_system(submitter, system, run)),
        f"{top}/src/{benchmark}/README.md": _note("Measured by EcoCompute cube."),
        f"{place}/energy.json": energy.data,
        f"{place}/measurements.json": as_json(_measurements(arm, manifest, energy)),
        f"{place}/user.conf": b"# LoadGen was not run: there is nothing to configure.\n",
        f"{place}/README.md": _note("energy.json beside this page is the result."),
    }


def _note(text: str) -> bytes:
    return f"{_NO_MLPERF}\n\n{text}\n".encode()


def _system_name(run: Run, arm: Arm) -> str:
    boards = sorted({s.board.name for s in run.sessions if present(s.board)})
    replica = f"-r{arm.replica}" if arm.replica > 1 else ""
    parts = ("-".join(boards) or "no-board", f"{arm.precision}-{arm.runtime}{replica}", run.folder)
    return _short(slug("--".join(parts)))


def _benchmark(arm: Arm) -> str:
    return _short(slug(f"{model_slug(arm.model)}--{arm.workload.slug}"))


def _short(name: str) -> str:
    """A name that leaves room for others in a path, and is still the only one of its kind."""
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{sha256_hex(name.encode())[:8]}"


def _scenario(arm: Arm) -> str:
    return "SingleStream" if arm.workload.batch == 1 else "Offline"


def _measurements(arm: Arm, manifest: Manifest, energy: Energy) -> Json:
    weights = at(energy.document, "certificate.linear_weights")
    found = " + ".join(sorted(weights)) if isinstance(weights, dict) else ""
    return {
        "input_data_types": "int64 token ids",
        "retraining": "no",
        "starting_weights_filename": f"{one_line(manifest.reference)} ({manifest.weights} weights)",
        "weight_data_types": found or str(arm.precision),
        "weight_transformations": f"loaded as {arm.precision} by the runtime {arm.runtime}",
        "notes": _NO_MLPERF,
    }


def _system(submitter: str, system: str, run: Run) -> Json:
    """Every key that the public rules ask for; what nobody read is N/A."""
    session = run.sessions[0] if run.sessions else None
    return {
        **_host(session),
        **_boards(session),
        "division": "open",
        "submitter": _submitter(submitter),  # as the folder is called: checkers compare the two
        "status": "rdi",
        "system_type": "datacenter,edge",
        "system_type_detail": "",
        "system_name": system,
        "number_of_nodes": "1",
        "cooling": _UNKNOWN,
        "framework": _framework(session),
        "operating_system": one_line(session.host.platform) if session else _UNKNOWN,
        "other_software_stack": _software(session),
        "hw_notes": _NO_MLPERF,
        "sw_notes": _NO_MLPERF,
    }


def _host(session: SessionOpened | None) -> Json:
    host = session.host if session else None
    memory = host.memory_mib if host else Absent(reason="no session")
    cpu = host.cpu if host else Absent(reason="no session")
    return {
        "host_processors_per_node": _UNKNOWN,
        "host_processor_model_name": one_line(cpu) if present(cpu) else _UNKNOWN,
        "host_processor_core_count": str(host.cores) if host else _UNKNOWN,
        "host_processor_frequency": "",
        "host_processor_caches": "",
        "host_processor_interconnect": "",
        "host_memory_capacity": f"{memory} MiB" if present(memory) else _UNKNOWN,
        "host_memory_configuration": _UNKNOWN,
        "host_storage_type": _UNKNOWN,
        "host_storage_capacity": _UNKNOWN,
        "host_networking": _UNKNOWN,
        "host_networking_topology": _UNKNOWN,
        "host_network_card_count": _UNKNOWN,
    }


def _boards(session: SessionOpened | None) -> Json:
    board = session.board if session else Absent(reason="no session")
    known = present(board)
    return {
        "accelerators_per_node": "1" if known else "0",
        "accelerator_model_name": one_line(board.name) if present(board) else _UNKNOWN,
        "accelerator_memory_capacity": f"{board.memory_mib} MiB" if present(board) else _UNKNOWN,
        "accelerator_memory_configuration": _UNKNOWN,
        "accelerator_host_interconnect": _UNKNOWN,
        "accelerator_interconnect": _UNKNOWN,
        "accelerator_interconnect_topology": "",
        "accelerator_frequency": "",
        "accelerator_on-chip_memories": "",
    }


def _framework(session: SessionOpened | None) -> str:
    version = session.packages.get("torch") if session else None
    return f"PyTorch {one_line(version)}" if version else _UNKNOWN


def _software(session: SessionOpened | None) -> str:
    packages = sorted((session.packages if session else {}).items())
    told = [f"{one_line(name)} {one_line(version)}" for name, version in packages]
    if session and present(session.board):
        told.append(f"NVIDIA driver {one_line(session.board.driver)}")
    return ", ".join(told) or _UNKNOWN
