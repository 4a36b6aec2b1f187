"""Precision names: how each is loaded, and how each is recognised once it is.

A new one is a row of the table and a test (docs/arms.md).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import present
from ecocompute_cube.model.plan import Precision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecocompute_cube.model.journal import Certificate

#: Less than this share of the quantizable weights in the named format is another arm.
_LEAST_SHARE: Final = 0.999  # all of them, save a handful of scalars

#: Codes of the refusals by ``check_certificate``.
CERTIFICATE_CODES: Final = frozenset(
    {
        "precision_not_as_named",
        "wrong_settings",
        "wrong_compute_dtype",
        "wrong_product",
        "offload_detected",
        "board_unused",
    }
)

Library = Literal["torch", "bitsandbytes", "torchao"]
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class Recipe(NamedTuple):
    """How a precision is asked for, and what must then be found."""

    library: Library  #: that quantizes, and whose kernels multiply
    held: str | None  #: format of the linear weights, as the census names it; None: whatever it is
    dtype: str | None  #: torch's name for all else, and for what is computed in; None: the same
    bits: float  #: a linear weight takes, for predictions only
    probe_error: float  #: of a product, relative, that the library's own rounding explains
    asked: Mapping[str, object] = _NOTHING  #: keywords of the library's configuration
    found: Mapping[str, str] = MappingProxyType({})  #: settings that the loaded modules must show
    capability: tuple[int, int] = (0, 0)  #: least compute capability that has it in hardware
    capturable: bool = True  #: whether its step can be a CUDA graph
    on_cpu: bool = True  #: whether the library has it there, for rehearsals


def _bitsandbytes(
    held: str, bits: float, error: float, found: dict[str, str], **asked: object
) -> Recipe:
    recipe = Recipe("bitsandbytes", held, "float16", bits, error)
    return recipe._replace(asked=MappingProxyType(asked), found=MappingProxyType(found))


def _torchao(
    held: str, bits: float, error: float, activations: str = "as they are", **asked: object
) -> Recipe:
    found = MappingProxyType({"activations": activations})
    recipe = Recipe("torchao", held, "bfloat16", bits, error, found=found, capability=(8, 0))
    return recipe._replace(asked=MappingProxyType(asked))


_NF4: Final = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}

# Bits: 64-element blocks with one FP32 scale each are 4 + 32/64; with those scales in 8 bits and a
# second scale for 256 of them, 4 + 8/64 + 32/(64·256) (bitsandbytes 0.50). Torchao keeps a scale a
# row, or for INT4 a scale and a zero point in BF16 for each group of 128.
# Capabilities: BF16 is emulated below 8.0, FP8 absent below 8.9 (CUDA C++ Programming Guide).
# Probe errors: a few times what the formats' rounding gives a random product, which is 0.02 % for
# FP16, 0.3 % for NF4, 0.8 % for INT8 activations, 4 % for FP8's three bits.
RECIPES: Final[Mapping[Precision, Recipe]] = MappingProxyType(
    {
        Precision.FP16: Recipe("torch", "FP16", "float16", 16, 0.01),
        Precision.BF16: Recipe("torch", "BF16", "bfloat16", 16, 0.02, capability=(8, 0)),
        Precision.NF4: _bitsandbytes("NF4", 4.5, 0.02, {"double_quant": "false"}, **_NF4),
        Precision.NF4_DQ: _bitsandbytes(
            "NF4", 4.13, 0.02, {"double_quant": "true"}, bnb_4bit_use_double_quant=True, **_NF4
        ),
        Precision.INT8: _bitsandbytes(
            "INT8", 8, 0.04, {"outlier_threshold": "6.0"}, load_in_8bit=True
        )._replace(capturable=False),
        Precision.INT8_T0: _bitsandbytes(
            "INT8",
            8,
            0.04,
            {"outlier_threshold": "0.0"},
            load_in_8bit=True,
            llm_int8_threshold=0.0,
        ),
        Precision.FP8_WO: _torchao("FP8", 8, 0.02, config="Float8WeightOnlyConfig"),
        Precision.FP8_DYN: _torchao(
            "FP8", 8, 0.08, "quantized", config="Float8DynamicActivationFloat8WeightConfig"
        )._replace(capability=(8, 9), on_cpu=False),
        Precision.INT8_WO: _torchao("INT8", 8, 0.02, config="Int8WeightOnlyConfig"),
        Precision.INT4_WO: _torchao(
            "INT4",
            4.25,
            0.02,
            config="Int4WeightOnlyConfig",
            # the packing whose kernel is in torch itself; the default one needs another library
            int4_packing_format="tile_packed_to_4d",
        )._replace(on_cpu=False),
        Precision.AS_SHIPPED: Recipe("torch", None, None, 8, 0.08),
    }
)


def check_board(precision: Precision, capability: tuple[int, int] | None) -> None:
    """Refuse what a board only emulates, or has no kernels for; no capability: not a board.

    Raises ArmFailed: precision_not_native.
    """
    least = RECIPES[precision].capability
    if capability is None and not RECIPES[precision].on_cpu:
        raise ArmFailed(
            "precision_not_native",
            f"{precision} needs a GPU of compute capability {least[0]}.{least[1]} or higher.",
            "Drop the arm from rehearsals.",
        )
    if capability is not None and capability < least:
        raise ArmFailed(
            "precision_not_native",
            f"{precision} needs compute capability {least[0]}.{least[1]}; this board has "
            f"{capability[0]}.{capability[1]}, and would emulate it or fail.",
            "Take FP16 or a bitsandbytes precision on this board.",
        )


def devices_of(device: str) -> tuple[str, ...]:
    """The devices of an arm: ``cuda:0``, or ``cuda:0,cuda:1`` of a model that is split."""
    return tuple(device.split(","))


def check_certificate(precision: Precision, device: str, certificate: Certificate) -> None:
    """Refuse an arm that is not what its name says.

    Raises ArmFailed: ``precision_not_as_named``, ``wrong_settings``, ``wrong_compute_dtype``,
    ``wrong_product``, ``offload_detected``, ``board_unused``.
    """
    recipe = RECIPES[precision]
    if certificate.share_as_named < _LEAST_SHARE:
        held = ", ".join(f"{n} {name}" for name, n in certificate.linear_weights.items())
        raise ArmFailed(
            "precision_not_as_named",
            f"Only {certificate.share_as_named:.1%} of the linear weights are {precision} "
            f"({held}).",
            "Load a checkpoint whose layers this library can quantize, or drop the arm.",
        )
    for setting, wanted in recipe.found.items():
        if (shown := certificate.settings.get(setting)) != wanted:
            raise ArmFailed(
                "wrong_settings",
                f"The {precision} layers have {setting} = {shown}, not {wanted}.",
                "Update bitsandbytes, torchao and transformers to the pinned versions.",
            )
    if recipe.dtype is not None and certificate.compute_dtype != recipe.dtype:
        raise ArmFailed(
            "wrong_compute_dtype",
            f"The {precision} layers compute in {certificate.compute_dtype}, not {recipe.dtype}.",
            "Update bitsandbytes and transformers to the pinned versions.",
        )
    error = certificate.probe_error
    if present(error) and error > recipe.probe_error:
        raise ArmFailed(
            "wrong_product",
            f"A product by a {precision} layer is {error:.1%} off the product by its own weights; "
            f"rounding explains {recipe.probe_error:.0%}.",
            "The library's kernels are not right for this board; update it, or drop the arm.",
        )
    _check_devices(devices_of(device), certificate.devices)


def _check_devices(named: tuple[str, ...], found: tuple[str, ...]) -> None:
    if not set(found) <= set(named):
        raise ArmFailed(
            "offload_detected",
            f"Weights lie on {', '.join(found)}, not all on {' and '.join(named)}.",
            "Use a smaller model or a larger board.",
        )
    empty = [device for device in named if device not in found]
    if empty:
        raise ArmFailed(
            "board_unused",
            f"No weights lie on {' and '.join(empty)}: the model is not split over all of "
            f"{len(named)} boards.",
            "Lower boards in the plan.",
        )
