from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ecocompute_cube.download.checkpoint import describe
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.manifest import FORMAT, Manifest, Weights
from ecocompute_cube.model.plan import Arm, Phase, Precision, Runtime, Workload

from ..cli.tiny import write_tiny

if TYPE_CHECKING:
    from ecocompute_cube.backends.transformers import TransformersSession

Load = Callable[..., "TransformersSession"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("checkpoints") / "tiny")


def manifest_of(folder: Path) -> Manifest:
    facts = describe(folder)
    return Manifest(
        format=FORMAT,
        reference="local:tiny",
        name="tiny",
        weights=Weights.ORIGINAL,
        origin="made by a test",
        license="none",
        seed=Absent(reason="not drawn"),
        architecture=facts.architecture,
        parameters=facts.parameters,
        layers=facts.layers,
        hidden_size=facts.hidden_size,
        vocab_size=facts.vocab_size,
        max_context=facts.max_context,
        tokenizer=(folder / "tokenizer.json").exists(),
        files=(),
    )


@pytest.fixture(scope="session")
def load() -> Load:
    """Loads a checkpoint folder; ``batch``, ``prompt`` and ``output`` make the workload."""
    from ecocompute_cube.backends.transformers import TransformersBackend, TransformersSession

    def make(
        folder: Path,
        precision: Precision = Precision.FP16,
        *,
        batch: int = 1,
        prompt: int = 16,
        output: int = 12,
        runtime: Runtime = Runtime.EAGER,
        phase: Phase = Phase.GENERATE,
    ) -> TransformersSession:
        workload = Workload(prompt_tokens=prompt, output_tokens=output, batch=batch, phase=phase)
        arm = Arm(model="local:tiny", workload=workload, precision=precision, runtime=runtime)
        session = TransformersBackend("cpu").load(arm, manifest_of(folder), folder)
        assert isinstance(session, TransformersSession)
        return session

    return make
