"""The best configuration within limits, or what is in the way."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.analysis.cards import CARDS
from ecocompute_cube.analysis.estimator import estimate
from ecocompute_cube.analysis.optimizer import Limits, Prices, optimize
from ecocompute_cube.errors import UsageError

PRICES = Prices(per_kwh=0.3, grams_per_kwh=400)
AIMS = {
    "energy": "energy_mj_per_token",
    "latency": "latency_ms",
    "vram": "vram_gb",
    "cost": "cost_per_million",
    "carbon": "co2_g_per_million",
}


@given(
    st.floats(0.1, 100),
    st.sampled_from([card.name for card in CARDS]),
    st.sampled_from(sorted(AIMS)),
    st.floats(1, 1000),
)
def test_the_recommended_one_keeps_to_the_limits_and_nothing_within_them_is_better(
    params_b: float, gpu: str, aim: str, latency: float
) -> None:
    limits = Limits(max_latency_ms=latency)
    found = optimize(params_b, gpu=gpu, objective=aim, limits=limits, prices=PRICES)
    if found.recommended is None:
        assert found.feasible_count == 0 and found.closest_infeasible is not None
        assert found.closest_infeasible.blocked_by
        return
    assert found.recommended.latency_ms <= latency
    best = getattr(found.recommended, AIMS[aim])
    assert all(best <= getattr(each, AIMS[aim]) for each in (*found.alternatives, *found.pareto))


def test_no_configuration_of_the_front_is_better_in_both() -> None:
    front = optimize(7, gpu="rtx 4090").pareto
    assert front
    for each in front:
        assert not any(
            other.latency_ms <= each.latency_ms
            and other.energy_mj_per_token < each.energy_mj_per_token
            for other in front
        )


def test_the_most_tokens_a_second() -> None:
    found = optimize(7, gpu="rtx 4090", objective="max_throughput")
    assert found.recommended is not None
    assert all(found.recommended.throughput_tps >= a.throughput_tps for a in found.alternatives)


def test_energy_at_batch_1_is_the_estimators_in_mj_per_token() -> None:
    found = optimize(7, gpu="rtx 4090", batch=1)
    assert found.recommended is not None and found.recommended.precision == "NF4"
    assert found.recommended.energy_mj_per_token == estimate(7, gpu="rtx 4090").mj_per_token
    assert 1000 < found.recommended.energy_mj_per_token < 10_000
    assert found.recommended.basis == {
        "energy": "measured",
        "latency": "measured",
        "vram": "estimated",
        "perplexity": "measured on other models",
    }


def test_a_batch_is_modelled_alone_and_says_so() -> None:
    found = optimize(7, gpu="rtx 4090", batch=8)
    assert found.recommended is not None
    assert found.recommended.basis["energy"] == "modelled" and found.recommended.ci is None
    assert any("modelled alone" in note for note in found.notes)


def test_what_does_not_fit_is_told_with_what_it_takes() -> None:
    found = optimize(70, gpu="rtx 4090")
    assert found.recommended is None and found.closest_infeasible is not None
    (blocked,) = found.closest_infeasible.blocked_by
    assert (blocked.limit, blocked.allowed) == ("memory_gb", 24)
    assert blocked.value is not None and blocked.value > 24
    assert found.closest_infeasible.config.precision == "NF4"


def test_a_perplexity_budget_keeps_out_what_costs_more_and_what_nobody_measured() -> None:
    found = optimize(
        7,
        gpu="rtx 4090",
        batch=1,
        limits=Limits(max_perplexity_pct=2),
        precisions=["NF4", "INT8", "FP8-DYN", "FP16"],
    )
    kept = [found.recommended, *found.alternatives]
    assert [each.precision for each in kept if each is not None] == ["FP16", "INT8"]


def test_an_undecided_saving_is_told() -> None:
    found = optimize(3, gpu="rtx 4090", batch=1, precisions=["NF4"])
    assert any("not decided" in note for note in found.notes)


def test_carbon_is_energy_times_a_factor_that_was_given() -> None:
    found = optimize(7, gpu="rtx 4090", batch=1, prices=Prices(grams_per_kwh=360))
    assert found.recommended is not None
    expected = found.recommended.energy_mj_per_token * 1e6 / 3.6e9 * 360
    assert found.recommended.co2_g_per_million == pytest.approx(expected)
    assert found.recommended.cost_per_million is None


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"objective": "speed"}, "objective"),
        ({"objective": None}, "objective"),
        ({"objective": "cost"}, "price_per_kwh"),
        ({"objective": "carbon"}, "grams_per_kwh"),
        ({"limits": Limits(max_latency_ms=0)}, "max_latency_ms"),
        ({"limits": Limits(max_vram_gb=math.nan)}, "max_vram_gb"),
        ({"limits": Limits(min_throughput=-1)}, "min_throughput"),
        ({"prices": Prices(grams_per_kwh=math.inf)}, "grams_per_kwh"),
        ({"batches": [0]}, "batch"),
        ({"batches": []}, "batches"),
        ({"precisions": ["INT9"]}, "precision"),
        ({"precisions": ["NF4"] * 100}, "precisions"),
        ({"runtimes": ["vllm"]}, "runtime"),
        ({"context": 0}, "context"),
        ({"params_b": math.nan}, "params_b"),
    ],
)
def test_a_mistake_names_its_parameter(given_: dict[str, object], named: str) -> None:
    arguments: dict[str, object] = {"params_b": 7, "gpu": "rtx 4090", **given_}
    with pytest.raises(UsageError) as caught:
        optimize(**arguments)  # type: ignore[arg-type]
    assert caught.value.cause.startswith(f"{named}: ")
