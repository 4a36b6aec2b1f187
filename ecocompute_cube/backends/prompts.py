"""Prompts cut from a real text, the same for every arm of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.model.base import sha256_hex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.plan import Workload

Prompt = tuple[tuple[int, ...], ...]  #: batch rows of token ids


def byte_ids(text: str) -> list[int]:
    """The text's UTF-8 bytes as token ids, for models without a tokenizer (0 to 255)."""
    return list(text.encode())


def cut_prompts(ids: Sequence[int], workload: Workload, iterations: int) -> tuple[Prompt, ...]:
    """``iterations`` prompts of shape (batch, prompt_tokens), cut one after the other from ``ids``.

    The text is taken as a ring, so that any length can be had. Raises ValueError for no ids.
    """
    if not ids:
        raise ValueError("the text has no tokens")

    def row(number: int) -> tuple[int, ...]:
        start = number * workload.prompt_tokens
        return tuple(ids[(start + step) % len(ids)] for step in range(workload.prompt_tokens))

    return tuple(
        tuple(row(iteration * workload.batch + index) for index in range(workload.batch))
        for iteration in range(iterations)
    )


def ids_sha256(prompts: Sequence[Prompt]) -> str:
    """SHA-256 of the ids as decimal text: rows by newline, ids by space, batches by blank line."""
    batches = ("\n".join(" ".join(map(str, row)) for row in prompt) for prompt in prompts)
    return sha256_hex("\n\n".join(batches).encode())
