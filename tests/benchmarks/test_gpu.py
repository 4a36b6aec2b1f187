"""What the benchmarks for a board compute from their windows; and their loop, on the CPU."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import locked_load, observer
from benchmarks.gpu.locked_load import Beat, polled, spread
from benchmarks.gpu.observer import Reading, costs
from benchmarks.gpu.replays import pace, same_ids
from ecocompute_cube.model.readings import Span


def pairs(time_factor: float, energy_factor: float) -> list[Reading]:
    """Eight pairs on a board that drifts by a tenth from pair to pair."""
    found = []
    for pair in range(8):
        drift = 1 + 0.1 * pair
        found.append(Reading("eager", pair, False, 50 / drift, 2000 * drift, 5.0))
        rate, mj = 50 / drift / time_factor, 2000 * drift * energy_factor
        found.append(Reading("eager", pair, True, rate, mj, 5.0))
    return found


def test_what_the_sampler_costs_is_seen_through_the_drift_of_the_board() -> None:
    time, energy = costs(pairs(1.003, 1.01))
    assert (time.what, energy.what) == ("time per token", "energy per token")
    assert time[1:] == pytest.approx((0.3, 0.3, 0.3))
    assert energy[1:] == pytest.approx((1.0, 1.0, 1.0))


def test_an_interval_holds_the_scatter_of_the_pairs() -> None:
    _, energy = costs(pairs(1, 1.01)[:8] + [r._replace(mj=r.mj / 1.01) for r in pairs(1, 1)[8:]])
    assert energy.low < energy.change < energy.high


def test_a_spread_has_an_interval_of_its_own() -> None:
    """32 values of mean 100 and deviation 1: by tables, 0.80 to 1.33 of it."""
    found = spread([100 - 0.984, 100 + 0.984] * 16)
    assert found.cv == pytest.approx(1.0, abs=0.001)
    assert found.low == pytest.approx(0.802, abs=0.001)
    assert found.high == pytest.approx(1.330, abs=0.001)


def test_polls_are_those_within_the_work_and_none_is_torn(tmp_path: Path) -> None:
    file = tmp_path / "polls.csv"
    file.write_text("1,100\n2,200\n3,300\n4,400\n5,5")
    assert polled(file, Span(start_ns=2, end_ns=9)) == [200, 300, 400]


def test_a_beat_takes_whole_periods_and_works_in_each() -> None:
    products: list[int] = []
    beat = Beat(lambda: products.append(1), lambda: None)
    calibration = len(products)
    beat.run(period_s=0.001, length_s=0.01)
    assert len(products) >= calibration + 10


def test_windows_are_kept_one_a_line(tmp_path: Path) -> None:
    observer.save(pairs(1, 1), tmp_path / "a.csv")
    locked_load.save([locked_load.Reading(100, 0, 1, 2, 3, 4)], tmp_path / "b.csv")
    a, b = (
        list(csv.DictReader((tmp_path / name).read_text().splitlines()))
        for name in ("a.csv", "b.csv")
    )
    assert len(a) == 16 and a[1]["sampled"] == "True"
    assert b[0]["counter_w"] == "2"


def test_what_is_decoded_beside_the_meter_is_what_the_product_decodes() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from benchmarks.gpu.decoding import decoding, random_model
    from ecocompute_cube.model.plan import Runtime

    shape = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 100,
        "tie_word_embeddings": False,
    }
    model = random_model("cpu", shape)
    loop, eager = (decoding(model, runtime, 8) for runtime in (Runtime.LOOP, Runtime.EAGER))
    assert loop().tolist() == loop().tolist() == eager().tolist()
    assert torch.get_default_dtype() is torch.float32


def test_a_pace_is_of_whole_generations() -> None:
    done: list[int] = []
    assert pace(lambda: done.append(1), lambda: None, 0.0) > 0
    assert len(done) == 1


def test_ids_are_compared_with_the_first_time() -> None:
    draws = iter([[1, 2, 3], [1, 2, 3], [1, 9, 3], [7, 2, 3], [1, 2, 3]])
    assert same_ids(lambda: torch.tensor([next(draws)])) == [3, 1, 0, 3]


def test_a_step_reads_every_weight_but_the_table_of_embeddings() -> None:
    pytest.importorskip("transformers")
    from benchmarks.gpu.compiled import read_bytes
    from benchmarks.gpu.decoding import random_model

    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 100}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    apart = random_model("cpu", shape | heads | {"tie_word_embeddings": False})
    attention = 32 * (32 + 2 * 16) + (32 + 2 * 16) + 32 * 32  # with the biases of q, k, v
    layer = attention + 3 * 32 * 64 + 2 * 32
    assert read_bytes(apart) == 4 * (layer + 32 + 32 * 100)  # FP32; the last norm, the last product
