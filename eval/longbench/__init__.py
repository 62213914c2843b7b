"""LongBench v1, its 16 English and code datasets: records, prompts, truncation, modules, metrics.

Bai et al., *LongBench: A Bilingual, Multitask Benchmark for Long Context Understanding* (arXiv 2308.14508).
"""
