"""Results to bundle, and bundles to look into."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ecocompute_cube.archive.about import Wishes
from ecocompute_cube.archive.bundle import Bundled, Request, bundle, checksum_list
from ecocompute_cube.archive.check import BundleChecked, check
from ecocompute_cube.model.base import sha256_hex
from ecocompute_cube.model.bundle import MANIFEST_NAME, SUMS_NAME, BundledFile, Creator, Layout
from ecocompute_cube.model.journal import Fact
from ecocompute_cube.model.journal_file import JOURNAL_NAME, JournalWriter, read_journal

ROOT: Final = Path(__file__).parents[2]
RECORDED: Final = ROOT / "data" / "h200" / "runs"
ONE_BLOCK: Final = "20261130T161246Z-qwen2-0.5b-protocol"
THREE_BLOCKS: Final = "20261130T161943Z-embedded-protocol"
SOMEBODY: Final = Creator(name="Doe, Jane", orcid="0000-0002-1825-0097", affiliation="A University")

Json = dict[str, Any]


class Desk:
    """A results folder, and what is made of it."""

    def __init__(self, folder: Path, *runs: str) -> None:
        self.folder, self.results, self.report = folder, folder / "results", folder / "report"
        self.out = folder / "bundle"
        self.lines: list[str] = []
        for run in runs:
            shutil.copytree(RECORDED / run, self.results / run)

    @property
    def run(self) -> Path:
        """The first run's folder."""
        return next(iter(sorted(self.results.iterdir())))

    @property
    def journal(self) -> Path:
        return self.run / JOURNAL_NAME

    def bundle(
        self,
        out: Path | None = None,
        layout: Layout = Layout.STANDARD,
        wishes: Wishes | None = None,
        force: bool = False,
    ) -> Bundled:
        wished = Wishes(creators=(SOMEBODY,)) if wishes is None else wishes
        place = self.out if out is None else out
        request = Request(self.results, place, self.report, layout, wished, force)
        return bundle(request, self.lines.append)

    def check(self, place: Path | None = None, signers: Path | None = None) -> BundleChecked:
        return check(place or self.out, signers, self.lines.append)

    def codes(self, place: Path | None = None) -> set[str]:
        """What is wrong with the bundle."""
        return {trouble.code for trouble in self.check(place).troubles}

    def rewrite_journal(self, change: Callable[[Fact], Fact], at: Path | None = None) -> None:
        """Facts changed, and every later hash made to fit."""
        path = at or self.journal
        old = read_journal(path)
        path.unlink()
        times = iter(line.utc for line in old.lines)
        with JournalWriter.create(path, lambda: next(times), lambda _: None) as journal:
            for fact in old.records:
                journal.append(change(fact))


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def reseal(folder: Path, change: Callable[[Json], None] = lambda manifest: None) -> None:
    """Make manifest and checksums fit what is there, as a forger would."""
    manifest = json.loads((folder / MANIFEST_NAME).read_text())
    manifest["files"] = [
        {"path": name, "bytes": len(data), "sha256": sha256_hex(data)}
        for name, data in files_of(folder).items()
        if name not in (MANIFEST_NAME, SUMS_NAME)
    ]
    change(manifest)
    text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    (folder / MANIFEST_NAME).write_text(text)
    own = BundledFile(
        path=MANIFEST_NAME, bytes=len(text.encode()), sha256=sha256_hex(text.encode())
    )
    listed = [BundledFile.model_validate(each) for each in manifest["files"]]
    (folder / SUMS_NAME).write_bytes(checksum_list([*listed, own]))
