"""Counting what is really loaded: weight formats, dtypes, devices, bytes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from ecocompute_cube.backends.precision import RECIPES
from ecocompute_cube.backends.probe import probe_error
from ecocompute_cube.model.base import Absent, MaybeInt
from ecocompute_cube.model.journal import Certificate
from ecocompute_cube.model.plan import Precision

if TYPE_CHECKING:
    from torch import nn

_MATRIX: Final = 2  # dimensions; biases, norms and scales have one
_DTYPE_NAMES: Final = {torch.float16: "FP16", torch.bfloat16: "BF16", torch.float32: "FP32"}
_PLAIN: Final = frozenset(_DTYPE_NAMES.values())
#: Formats by the class of torchao's tensors (0.18), whose dtype is that of what they stand for.
_TORCHAO: Final = {"Int8Tensor": "INT8", "Float8Tensor": "FP8"}
_TORCHAO_INT4: Final = "Int4"  # begins the names of its classes, one a packing


class _Weight(NamedTuple):
    """One parameter that inputs are multiplied with, and the module that holds it."""

    holder: nn.Module
    parameter: nn.Parameter


def certificate_of(
    model: nn.Module,
    precision: Precision,
    allocated: MaybeInt,
    kernels: str,
    decoder: dict[str, str],
) -> Certificate:
    """What ``model`` holds. Embeddings and head count apart: libraries leave them unquantized."""
    weights = _weights(model)
    formats = Counter[str]()
    for weight in weights:
        formats[_format(weight)] += _elements(weight)
    inside = {id(weight.parameter) for weight in weights}
    rest = Counter[str]()
    for parameter in model.parameters():
        if id(parameter) not in inside:
            rest[_dtype_name(parameter.dtype)] += parameter.numel()
    held = Counter[str]()
    for tensor in _tensors(model):
        held[_device(tensor)] += _bytes(tensor)
    return Certificate(
        linear_weights=dict(sorted(formats.items())),
        share_as_named=_share(formats, RECIPES[precision].held),
        other_weights=dict(sorted(rest.items())),
        compute_dtype=_agreed({_compute_dtype(weight) for weight in weights}),
        settings=_settings(weights),
        weight_bytes=held.total(),
        devices=tuple(sorted(held)),
        device_bytes=dict(sorted(held.items())) if len(held) > 1 else {},
        allocated_bytes=allocated,
        torch_cuda=torch.version.cuda or Absent(reason="this torch is built without CUDA"),
        kernels=kernels,
        probe_error=probe_error([weight.holder for weight in weights if _kind(weight)]),
        decoder=decoder,
    )


def stored_bytes(module: nn.Module) -> int:
    """Of all parameters and buffers as they are held, each once."""
    return sum(_bytes(tensor) for tensor in _tensors(module))


def matrix_elements(model: nn.Module) -> int:
    """Of everything that a token is multiplied with, the output head among it."""
    heads = [p for head in _heads(model) for p in head.parameters() if p.ndim >= _MATRIX]
    return sum(map(_elements, _weights(model))) + sum(p.numel() for p in heads)


def _share(formats: Counter[str], held: str | None) -> float:
    """Of the elements in a format; of a checkpoint as it was shipped, whether any is quantized."""
    if held is None:
        return float(bool(formats.keys() - _PLAIN))
    return formats[held] / formats.total() if formats else 0.0


def _weights(model: nn.Module) -> list[_Weight]:
    """Every matrix or stack of matrices, whatever its module: Linear, Conv1D, experts, routers."""
    apart = {id(parameter) for module in _apart(model) for parameter in module.parameters()}
    held = {
        id(parameter): _Weight(module, parameter)
        for module in model.modules()
        for parameter in module.parameters(recurse=False)
        if parameter.ndim >= _MATRIX and id(parameter) not in apart
    }
    return list(held.values())


def _apart(model: nn.Module) -> list[nn.Module]:
    embeddings = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    return [*embeddings, *_heads(model)]


def _heads(model: nn.Module) -> list[nn.Module]:
    """The output head; of a model that names none, the linear layer that ends in the vocabulary."""
    named: Any = getattr(model, "get_output_embeddings", lambda: None)()
    if named is not None:
        return [named]
    vocabulary = getattr(getattr(model, "config", None), "vocab_size", None)
    return [
        module
        for module in model.modules()
        if isinstance(module, torch.nn.Linear) and module.out_features == vocabulary
    ]


def _kind(weight: _Weight) -> str:
    """Name of the class of a linear module whose weight this is; else none, and dtypes tell."""
    module = weight.holder
    linear = isinstance(module, torch.nn.Linear) and weight.parameter is module.weight
    return type(module).__name__ if linear else ""


def _elements(weight: _Weight) -> int:
    if not _kind(weight):
        return weight.parameter.numel()
    linear: Any = weight.holder  # by its shape: bitsandbytes packs two 4-bit elements into one
    return int(linear.in_features * linear.out_features)


def _format(weight: _Weight) -> str:
    kind, parameter = _kind(weight), weight.parameter
    if kind == "Linear4bit":
        quantized: Any = parameter  # bitsandbytes' Params4bit
        return str(quantized.quant_type).upper()
    if kind == "Linear8bitLt" and parameter.dtype == torch.int8:
        return "INT8"
    name = type(parameter).__name__
    if name.startswith(_TORCHAO_INT4):
        return "INT4"
    return _TORCHAO.get(name) or _dtype_name(parameter.dtype)


def _compute_dtype(weight: _Weight) -> str:
    kind = _kind(weight)
    if kind == "Linear4bit":
        return str(weight.holder.compute_dtype).removeprefix("torch.")
    if kind == "Linear8bitLt":
        return "float16"  # bitsandbytes casts INT8 inputs to FP16 (0.50, MatMul8bitLt)
    return str(weight.parameter.dtype).removeprefix("torch.")


def _settings(weights: list[_Weight]) -> dict[str, str]:
    """Quantizer settings read from the first quantized module, not from what was asked for."""
    for weight in weights:
        holder: Any = weight.holder
        if _kind(weight) == "Linear4bit":
            state = holder.weight.quant_state
            return {
                "quant_type": str(state.quant_type),
                "blocksize": str(state.blocksize),
                "double_quant": str(bool(state.nested)).lower(),
            }
        if _kind(weight) == "Linear8bitLt":
            return {"outlier_threshold": str(holder.state.threshold)}
        if hasattr(weight.parameter, "tensor_data_names"):  # of torchao's tensors
            dynamic = getattr(weight.parameter, "act_quant_kwargs", None) is not None
            return {
                "tensor": type(weight.parameter).__name__,
                "activations": "quantized" if dynamic else "as they are",
            }
    return {}


def _agreed(values: set[str]) -> str:
    return values.pop() if len(values) == 1 else "mixed: " + ", ".join(sorted(values))


def _dtype_name(dtype: torch.dtype) -> str:
    return _DTYPE_NAMES.get(dtype, str(dtype).removeprefix("torch."))


def _tensors(model: nn.Module) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers()]


def _bytes(tensor: torch.Tensor) -> int:
    """Of what a tensor is made of: torchao's stand for another, bitsandbytes' have a state."""
    parts = [getattr(tensor, name) for name in getattr(tensor, "tensor_data_names", ())]
    state: Any = getattr(tensor, "quant_state", None)
    while state is not None:
        parts += [state.absmax, state.code]
        state = state.state2
    own = [] if hasattr(tensor, "tensor_data_names") else [tensor]
    scales = getattr(tensor, "SCB", None)
    each = [*own, *parts, *([] if scales is None else [scales])]
    return sum(part.numel() * part.element_size() for part in each)


def _device(tensor: torch.Tensor) -> str:
    return str(tensor.device)
