"""What may be asked, as the API page tells it; tests hold it to what the doors take."""

from __future__ import annotations

from typing import Final

#: Name, name in a link to a page, which of estimate and optimize take it, what it is.
PARAMETERS: Final = (
    ("q", "q", "eo", "a question in words: 13B on A100, int8, batch 32, 8k context"),
    ("params_b", "size", "eo", "billions of parameters"),
    ("gpu", "gpu", "eo", "a board: RTX 4090, A100, H200"),
    ("arch", "arch", "eo", "or its generation: ada, hopper"),
    (
        "precision",
        "prec",
        "eo",
        "NF4 if left out; in a link to Optimize several, with commas between",
    ),
    ("runtime", "rt", "eo", "how it decodes; eager if left out"),
    ("batch", "batch", "eo", "rows at a time; 1 if left out, for optimize any (on its page 1)"),
    ("context", "ctx", "eo", "tokens of prompt and output together; 266 if left out"),
    ("ctx", "ctx", "eo", "the same"),
    ("form", "", "e", "curves, or published: the published parameters"),
    ("objective", "obj", "o", "energy, latency, throughput, vram, cost or carbon"),
    ("max_latency_ms", "lat", "o", "milliseconds a token at most"),
    ("max_vram_gb", "vram", "o", "gigabytes at most, besides the board's own"),
    ("min_throughput", "tput", "o", "tokens a second at least, of all rows"),
    ("max_perplexity_pct", "ppl", "o", "perplexity above FP16 at most, in percent"),
    ("price_per_kwh", "kwh", "o", "what a kWh costs"),
    ("price_per_hour", "hour", "o", "what an hour of the machine costs"),
    ("grams_per_kwh", "co2", "o", "CO2 of a kWh, in grams"),
    ("precisions", "prec", "o", "the precisions to look at"),
    ("runtimes", "rt", "o", "the runtimes to look at"),
    ("batches", "", "o", "the batches to look at"),
    ("contexts", "", "o", "the contexts to look at"),
)
