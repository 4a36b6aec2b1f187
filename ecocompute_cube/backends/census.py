"""Counting what is really loaded: weight formats, dtypes, devices, bytes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from ecocompute_cube.model.base import Absent, MaybeInt
from ecocompute_cube.model.journal import Certificate
from ecocompute_cube.model.plan import Precision

if TYPE_CHECKING:
    from torch import nn

_DTYPE_NAMES = {torch.float16: "FP16", torch.bfloat16: "BF16", torch.float32: "FP32"}


def certificate_of(
    model: nn.Module, precision: Precision, allocated: MaybeInt, kernels: str
) -> Certificate:
    """What ``model`` holds. The output head counts apart: libraries leave it unquantized."""
    head = model.get_output_embeddings()  # type: ignore[operator]  # transformers' PreTrainedModel
    linear = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not head
    }
    formats = Counter[str]()
    for module in linear.values():
        formats[_format(module)] += module.in_features * module.out_features
    inside = {id(module.weight) for module in linear.values()}
    rest = Counter[str]()
    for parameter in model.parameters():
        if id(parameter) not in inside:
            rest[_dtype_name(parameter.dtype)] += parameter.numel()
    total = formats.total()
    return Certificate(
        linear_weights=dict(sorted(formats.items())),
        share_as_named=formats[precision] / total if total else 0.0,
        other_weights=dict(sorted(rest.items())),
        compute_dtype=_agreed({_compute_dtype(module) for module in linear.values()}),
        settings=_settings(next(iter(linear.values()))) if linear else {},
        weight_bytes=sum(t.numel() * t.element_size() for t in _tensors(model)),
        devices=tuple(sorted({_device(tensor) for tensor in _tensors(model)})),
        allocated_bytes=allocated,
        torch_cuda=torch.version.cuda or Absent(reason="this torch is built without CUDA"),
        kernels=kernels,
    )


def _format(module: nn.Linear) -> str:
    kind = type(module).__name__
    if kind == "Linear4bit":
        quantized: Any = module.weight  # bitsandbytes' Params4bit
        return str(quantized.quant_type).upper()
    if kind == "Linear8bitLt":
        return "INT8" if module.weight.dtype == torch.int8 else _dtype_name(module.weight.dtype)
    return _dtype_name(module.weight.dtype)


def _compute_dtype(module: nn.Linear) -> str:
    if type(module).__name__ == "Linear4bit":
        return str(module.compute_dtype).removeprefix("torch.")
    if type(module).__name__ == "Linear8bitLt":
        return "float16"  # bitsandbytes casts INT8 inputs to FP16 (0.50, MatMul8bitLt)
    return str(module.weight.dtype).removeprefix("torch.")


def _settings(module: nn.Linear) -> dict[str, str]:
    """Quantizer settings read from one loaded module, not from what was asked for."""
    if type(module).__name__ == "Linear4bit":
        quantized: Any = module.weight  # bitsandbytes' Params4bit
        state: Any = quantized.quant_state
        return {
            "quant_type": str(state.quant_type),
            "blocksize": str(state.blocksize),
            "double_quant": str(bool(state.nested)).lower(),
        }
    if type(module).__name__ == "Linear8bitLt":
        state = module.state  # bitsandbytes' MatmulLtState
        return {"outlier_threshold": str(state.threshold)}
    return {}


def _agreed(values: set[str]) -> str:
    return values.pop() if len(values) == 1 else "mixed: " + ", ".join(sorted(values))


def _dtype_name(dtype: torch.dtype) -> str:
    return _DTYPE_NAMES.get(dtype, str(dtype).removeprefix("torch."))


def _tensors(model: nn.Module) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers()]


def _device(tensor: torch.Tensor) -> str:
    return str(tensor.device)
