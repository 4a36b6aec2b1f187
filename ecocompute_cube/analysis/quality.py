"""Perplexity of a text in windows, and how far its change may be luck of the text.

Two arms score the same windows i of n_i tokens. With d_i the difference of their summed negative
log-likelihoods, the change of perplexity is exp(D) − 1 with D = Σ d_i / Σ n_i, and the spread of
the windows around it gives an interval (ratio estimator; W. G. Cochran, Sampling Techniques, 6.3):

    se = √k · √(Σ (d_i − D·n_i)² / (k − 1)) / Σ n_i          D ± t_{k−1} · se
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scipy import special

from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.claims import Interval
from ecocompute_cube.units import percent

if TYPE_CHECKING:
    from ecocompute_cube.model.journal import QualityScored


def mean_nll(scored: QualityScored) -> float:
    """Nats per scored token."""
    return sum(scored.nll) / sum(scored.scored_tokens)


def same_windows(scored: QualityScored, other: QualityScored) -> bool:
    """Whether two scores are of the same text, cut in the same way."""
    cut, other_cut = scored.scored_tokens, other.scored_tokens
    return scored.text_sha256 == other.text_sha256 and cut == other_cut


def delta_interval_pct(
    scored: QualityScored, baseline: QualityScored, confidence: float
) -> Interval | Absent:
    """Interval of the change of perplexity, over the windows of the text; or why there is none."""
    tokens = scored.scored_tokens
    if not same_windows(scored, baseline):
        return Absent(reason="the two were not scored on the same windows")
    windows = len(tokens)
    if windows < 2:  # noqa: PLR2004 (a spread needs two)
        return Absent(reason="one window of text has no spread")
    differences = [own - other for own, other in zip(scored.nll, baseline.nll, strict=True)]
    mean = sum(differences) / sum(tokens)
    squares = sum((d - mean * n) ** 2 for d, n in zip(differences, tokens, strict=True))
    error = math.sqrt(windows * squares / (windows - 1)) / sum(tokens)
    half = float(special.stdtrit(windows - 1, 0.5 + confidence / 2)) * error
    return Interval(
        low=percent(math.exp(mean - half)),
        high=percent(math.exp(mean + half)),
        confidence=confidence,
        n=windows,
        unit="windows",
    )
