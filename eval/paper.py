"""Published figures to stand beside ours: Gim et al., *Prompt Cache*, MLSys 2024 (arXiv 2311.04934v2)."""

from __future__ import annotations

PAPER_NAMES = {
    "narrativeqa": "NarrativeQA",
    "2wikimqa": "2WikiMQA",
    "musique": "MuSiQue",
    "gov_report": "GovReport",
    "qmsum": "QMSum",
    "multi_news": "MultiNews",
    "triviaqa": "TriviaQA",
    "passage_retrieval_en": "PassageRetrieval",
}
"""LongBench's name of a dataset to the paper's."""

PAPER_MODELS = ("Llama2 7B", "Llama2 13B", "MPT 7B", "Falcon 7B")

PAPER_SCORES: dict[str, tuple[str, str, str, str]] = {
    "narrativeqa": ("19.93 / 19.38", "20.37 / 19.94", "10.43 / 11.33", "7.14 / 8.87"),
    "2wikimqa": ("16.63 / 13.95", "14.59 / 17.69", "10.44 / 13.70", "14.42 / 15.07"),
    "musique": ("7.31 / 8.57", "10.03 / 12.14", "7.38 / 7.32", "4.81 / 5.86"),
    "gov_report": ("24.67 / 25.37", "28.13 / 28.18", "26.96 / 27.49", "22.39 / 23.40"),
    "qmsum": ("19.24 / 19.46", "18.80 / 18.82", "15.19 / 15.51", "12.84 / 12.96"),
    "multi_news": ("24.33 / 24.22", "25.43 / 26.23", "25.42 / 25.66", "20.91 / 21.19"),
    "triviaqa": ("13.04 / 12.33", "23.19 / 22.38", "10.57 / 9.17", "13.31 / 11.42"),
    "passage_retrieval_en": ("7.50 / 4.25", "9.08 / 6.50", "3.03 / 3.85", "3.00 / 3.45"),
}
"""Its accuracy table: baseline / cached, for each of `PAPER_MODELS`."""

PAPER_TTFT_CLAIMS = (
    ("headline, CPU", "60"),
    ("LongBench, i9-13900K, DDR5-5600, Llama2 7B, about 5K tokens", "up to 70"),
    ("LongBench, Ryzen 7950X, DDR4-3600, the same", "up to 20"),
    ("headline, GPU", "8"),
)
"""How many times sooner the first token comes, in the paper's words."""

PAPER_USE_CASES: dict[str, tuple[str, tuple[int, int], tuple[int, int]]] = {
    "code": ("code generation, five source files as modules", (924, 93), (75_976, 861)),
    "personalisation": ("personalisation, six unions of five traits", (216, 65), (22_449, 686)),
    "parameters": ("a travel plan with parameters", (75, 54), (4_725, 479)),
}
"""What each use case is, and milliseconds to the first token of a 7B model, full prefill and cached: on a GPU with
modules in its memory, and on a CPU."""

PAPER_GPU_TTFT = (
    ("LongBench, Llama2 7B, modules on the device (RTX 4090, A40, A100), about 5K tokens", "5x to 10x"),
    ("the same, modules in host memory", "1.5x to 3x"),
    ("RTX 4090, Llama 7B, 3K tokens: 900 to 90 ms, later tokens 32 ms with and without", "10x"),
    ("headline, GPU", "8x"),
)
"""How many times sooner the first token comes on GPUs."""

PAPER_COPIES = {"host": 3.79, "up": 5.34, "device": 0.23}
"""Milliseconds for one layer's states of 5,000 tokens: host to host, host to device, device to device."""
