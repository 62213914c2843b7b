"""A tiny model and a tiny LongBench on disk, so that suites run from their command line in seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.tiny import byte_tokenizer, tiny_llama

WIKI = {
    "context": "Passage 1:\nOne is a number.\n\nPassage 2:\nTwo is <b>one</b> &amp; more.\n\nPassage 3:\nEnd.\n",
    "input": "Which?",
    "answers": ["Two", "Both"],
}
LCC = {"context": "def one():\n    return 1\n\n\ndef two():\n", "input": "", "answers": ["    return 2"]}


def save_model(folder: Path, **config: Any) -> str:
    """A random Llama whose tokens are bytes, and its tokenizer."""
    tiny_llama(max_position_embeddings=2048, **config).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)


def save_data(folder: Path, records: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """One JSONL file a dataset, in LongBench's form."""
    folder.mkdir(exist_ok=True)
    for dataset, rows in records.items():
        lines = [
            {
                "length": 9,
                "dataset": dataset,
                "language": "en",
                "all_classes": None,
                "_id": f"{dataset}-{number}",
                **row,
            }
            for number, row in enumerate(rows)
        ]
        (folder / f"{dataset}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(folder)
