"""Ways to score labels with transformers alone, all with the same scorer: the label tree in the ticket's own pass.

The recipe with a `DynamicCache` that is prefilled once, extended by each item and cropped again is that of KDnuggets
(figures in the README), by deep copy in an older form of it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from promptcache.layout.token_tree import TokenTree
from promptcache.runtime.scoring import Score, score_continuations


class LabelScorer:
    """Scores labels behind prompts by passes of a stock model; `labels` are the token ids that follow a prompt."""

    def __init__(self, model: Any, labels: Sequence[Sequence[int]], pad_id: int) -> None:
        self.model = model
        self.labels = labels
        self.tree = TokenTree.of(labels)
        self.pad_id = pad_id
        self.nodes = torch.full((len(self.tree), len(self.tree)), torch.finfo(model.dtype).min, dtype=model.dtype)
        for node, seen in enumerate(self.tree.ancestors()):
            self.nodes[node, seen] = 0

    def score(self, ids: Sequence[Sequence[int]], cache: DynamicCache | None, cached: int) -> list[list[Score]]:
        """Scores for each row. `ids` are the tokens behind the first `cached` ones, left-padded here to one length;
        with a cache there is one row."""
        longest, rows, tree = max(map(len, ids)), len(ids), self.tree
        lowest = torch.finfo(self.model.dtype).min
        width = cached + longest + len(tree)
        tokens = torch.full((rows, longest + len(tree)), self.pad_id)
        positions = torch.zeros_like(tokens)
        mask = torch.zeros((rows, 1, longest + len(tree), width), dtype=self.model.dtype)
        mask[:, :, :longest, cached : cached + longest] = torch.full((longest, longest), lowest).triu(1)
        mask[:, :, :longest, cached + longest :] = lowest
        mask[:, :, longest:, cached + longest :] = self.nodes
        for row, found in enumerate(ids):
            pad = longest - len(found)
            end = cached + len(found)
            tokens[row, pad:] = torch.tensor([*found, *tree.ids])
            positions[row, pad:] = torch.tensor([*range(cached, end), *(end - 1 + depth for depth in tree.depths)])
            mask[row, :, pad:, cached : cached + pad] = lowest
        with torch.no_grad():
            logits = self.model(
                input_ids=tokens,
                position_ids=positions,
                attention_mask=mask,
                cache=cache,
                use_cache=cache is not None,
                logits_to_keep=1 + len(tree),
            ).logits
        return [score_continuations(row.float(), tree, self.labels) for row in logits]


class FullEncoding:
    """Every prompt is read from its first token, alone or in a batch."""

    def __init__(self, scorer: LabelScorer, tokenizer: Any, static: str) -> None:
        self.scorer, self.tokenizer, self.static = scorer, tokenizer, static

    def __call__(self, suffixes: Sequence[str]) -> list[list[Score]]:
        ids = [self.tokenizer(self.static + suffix, add_special_tokens=False)["input_ids"] for suffix in suffixes]
        return self.scorer.score(ids, None, 0)


class CacheRecipe:
    """The static part is prefilled once into a `DynamicCache`; each item is run on it, and then it is put back: by
    working on a deep copy, or by cropping what the item added."""

    def __init__(self, scorer: LabelScorer, tokenizer: Any, static: str, *, crop: bool) -> None:
        self.scorer, self.tokenizer, self.crop = scorer, tokenizer, crop
        ids = torch.tensor([tokenizer(static, add_special_tokens=False)["input_ids"]])
        self.length = ids.shape[1]
        self.cache = DynamicCache()
        with torch.no_grad():
            scorer.model(ids, cache=self.cache, use_cache=True, logits_to_keep=1)

    def __call__(self, suffixes: Sequence[str]) -> list[list[Score]]:
        scores = []
        for suffix in suffixes:
            ids = self.tokenizer(suffix, add_special_tokens=False)["input_ids"]
            cache = self.cache if self.crop else copy.deepcopy(self.cache)
            scores += self.scorer.score([ids], cache, self.length)
            if self.crop:
                cache.crop(-(cache.get_seq_length() - self.length))
        return scores


class Floor:
    """The item's own tokens and the labels with no static part at all: what no reuse can go below. Its scores mean
    nothing."""

    def __init__(self, scorer: LabelScorer, tokenizer: Any) -> None:
        self.scorer, self.tokenizer = scorer, tokenizer

    def __call__(self, suffixes: Sequence[str]) -> list[list[Score]]:
        return [
            score
            for suffix in suffixes
            for score in self.scorer.score([self.tokenizer(suffix, add_special_tokens=False)["input_ids"]], None, 0)
        ]
