"""What the answers rest on: sessions with their sources, and the files that hold them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.curves import FILE as CURVES
from ecocompute_cube.analysis.curves import library
from ecocompute_cube.analysis.published_form import FILE as FORM
from ecocompute_cube.model.published import TABLE
from ecocompute_cube.site.tables import tables

if TYPE_CHECKING:
    from ecocompute_cube.analysis.curves import Anchor

HEAD: Final = ("session", "board", "arms", "sizes", "rows", "software", "source", "remarks")
LICENSE: Final = "CC-BY-4.0"  # of the published files as of ours


class File(NamedTuple):
    """One download."""

    name: str
    title: str
    content: bytes

    @property
    def sha256(self) -> str:
        """Of its bytes."""
        return hashlib.sha256(self.content).hexdigest()


class Source(NamedTuple):
    """Where a session comes from, and its address where there is one."""

    text: str
    address: str | None


def files() -> tuple[File, ...]:
    """Everything that is computed with, and what it was made from."""
    exported = json.dumps(tables(), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return (
        File("data/measured.csv", "Published sessions, an arm a row", TABLE.read_bytes()),
        File("data/curves.json", "Curves fitted to all sessions", CURVES.read_bytes()),
        File("data/form.json", "Parameters of the published form", FORM.read_bytes()),
        File("data/estimator.json", "What these pages compute from", f"{exported}\n".encode()),
    )


def index(found: tuple[File, ...]) -> File:
    """What there is, for programs."""
    listed = [
        {
            "file": each.name.removeprefix("data/"),
            "title": each.title,
            "bytes": len(each.content),
            "sha256": each.sha256,
            "license": LICENSE,
        }
        for each in found
    ]
    text = json.dumps({"format": "ecocompute-data-index/1", "files": listed}, indent=1)
    return File("data/index.json", "This list, for programs", f"{text}\n".encode())


def session_rows() -> tuple[tuple[str | Source, ...], ...]:
    """A row a session and board, by source."""
    seen: dict[tuple[str, str, str], list[tuple[str, Anchor]]] = {}
    for (_, precision, runtime), curve in library().ratios.items():
        for anchor in curve.anchors:
            of = (anchor.source, anchor.session, anchor.gpu)
            seen.setdefault(of, []).append((f"{precision} {runtime}", anchor))
    return tuple(_row(*key, seen[key]) for key in sorted(seen))


def _row(
    source: str, session: str, gpu: str, rows: list[tuple[str, Anchor]]
) -> tuple[str | Source, ...]:
    anchors = [anchor for _, anchor in rows]
    sizes = ", ".join(f"{size:.3g}B" for size in sorted({anchor.N for anchor in anchors}))
    remarks = sorted({remark.replace("_", " ") for each in anchors for remark in each.remarks})
    return (
        session,
        gpu,
        ", ".join(sorted({arm for arm, _ in rows})),
        sizes,
        str(len(rows)),
        "; ".join(dict.fromkeys(anchor.stack for anchor in anchors)),
        Source(source, f"https://doi.org/{source}" if source.startswith("10.") else None),
        ", ".join(remarks) or "–",
    )
