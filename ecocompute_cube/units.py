"""Joule, watt, second, token: the types, and the only place where they are converted."""

from __future__ import annotations

from typing import NewType

Joule = NewType("Joule", float)
Watt = NewType("Watt", float)
Second = NewType("Second", float)
Nanosecond = NewType("Nanosecond", int)
Millijoule = NewType("Millijoule", int)  #: what NVML's energy counter counts
MillijoulePerToken = NewType("MillijoulePerToken", float)

_NS_PER_S = 1_000_000_000
_MJ_PER_J = 1_000
_BYTES_PER_GIB = 2**30
_KJ_PER_KWH = 3_600


def seconds(ns: int) -> Second:
    """Nanoseconds to seconds."""
    return Second(ns / _NS_PER_S)


def nanoseconds(s: float) -> Nanosecond:
    """Seconds to whole nanoseconds."""
    return Nanosecond(round(s * _NS_PER_S))


def joules(mj: float) -> Joule:
    """Millijoules to joules."""
    return Joule(mj / _MJ_PER_J)


def watts(mw: float) -> Watt:
    """Milliwatts to watts."""
    return Watt(mw / _MJ_PER_J)


def mj_per_token(energy: Joule, tokens: int) -> MillijoulePerToken:
    """Energy per token in mJ (the same number as joules per thousand tokens).

    Raises ZeroDivisionError for no tokens: an absent figure is a reason, never zero.
    """
    return MillijoulePerToken(energy * _MJ_PER_J / tokens)


def kwh(kj: float) -> float:
    """Kilojoules to kilowatt-hours."""
    return kj / _KJ_PER_KWH


def gib(size_bytes: float) -> float:
    """Bytes to GiB."""
    return size_bytes / _BYTES_PER_GIB


def percent(ratio: float) -> float:
    """A ratio as a change in percent: 0.85 is −15."""
    return (ratio - 1.0) * 100.0


def signed(value: float, digits: int = 1) -> str:
    """With so many digits behind the point, and a sign; what rounds to nothing has none."""
    text = f"{value:+.{digits}f}"
    return text if text.strip("+-0.") else text[1:]
