"""Precision names: how each is loaded, and how each is recognised once it is."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.plan import Precision

if TYPE_CHECKING:
    from ecocompute_cube.model.journal import Certificate

#: Less than this share of the quantizable weights in the named format is another arm.
_LEAST_SHARE: Final = 0.999  # all of them, save a handful of scalars


class Recipe(NamedTuple):
    """How a precision is asked for."""

    quantizer: MappingProxyType[str, object] | None  #: keywords of BitsAndBytesConfig
    weight_bits: float  #: bits a linear weight takes, for predictions only


RECIPES: Final[MappingProxyType[Precision, Recipe]] = MappingProxyType(
    {
        Precision.FP16: Recipe(None, 16),
        # 64-element blocks with one FP32 scale each: 4 + 32/64 bits (bitsandbytes 0.50)
        Precision.NF4: Recipe(
            MappingProxyType({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}), 4.5
        ),
        # the library's default: outliers above 6.0 are multiplied in FP16
        Precision.INT8: Recipe(MappingProxyType({"load_in_8bit": True}), 8),
    }
)


def check_certificate(precision: Precision, device: str, certificate: Certificate) -> None:
    """Refuse an arm that is not what its name says.

    Raises ArmFailed: ``precision_not_as_named``, ``wrong_compute_dtype``, ``offload_detected``.
    """
    if certificate.share_as_named < _LEAST_SHARE:
        held = ", ".join(f"{n} {name}" for name, n in certificate.linear_weights.items())
        raise ArmFailed(
            "precision_not_as_named",
            f"Only {certificate.share_as_named:.1%} of the linear weights are {precision} "
            f"({held}).",
            "Load a checkpoint whose layers this library can quantize, or drop the arm.",
        )
    if certificate.compute_dtype != "float16":
        raise ArmFailed(
            "wrong_compute_dtype",
            f"The {precision} layers compute in {certificate.compute_dtype}, not float16.",
            "Update bitsandbytes and transformers to the pinned versions.",
        )
    if certificate.devices != (device,):
        raise ArmFailed(
            "offload_detected",
            f"Weights lie on {', '.join(certificate.devices)}, not all on {device}.",
            "Use a smaller model or a larger board.",
        )
