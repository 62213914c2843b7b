"""What a conversation's ids must be, by transformers alone; and tokenizers in which no border can matter."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache

from tokenizers import Tokenizer as Core
from transformers import PreTrainedTokenizerFast

from promptcache.pml import Module, Node, Parameter, Text, Turn, Union
from tests.tokenizers import published

Turns = list[tuple[str, str]]


@cache
def unmerged(name: str) -> PreTrainedTokenizerFast:
    """A published tokenizer that makes a token of each character (or byte): special and added tokens, dummy spaces and
    template are as they were, and tokens never span a border, but for added tokens such as Gemma's line breaks."""
    wrapped = published(name)
    rules = json.loads(wrapped.backend_tokenizer.to_str())
    model = rules["model"]
    if model["type"] == "BPE":
        model["merges"] = []
    else:
        special = {token["content"] for token in rules["added_tokens"]}
        model["vocab"] = [piece for piece in model["vocab"] if len(piece[0]) == 1 or piece[0] in special]
    plain = PreTrainedTokenizerFast(
        tokenizer_object=Core.from_str(json.dumps(rules)),
        clean_up_tokenization_spaces=False,
        **wrapped.special_tokens_map,
    )
    plain.chat_template = wrapped.chat_template
    return plain


def reference_ids(wrapped: PreTrainedTokenizerFast, turns: Sequence[tuple[str, str]], bos: int | None) -> list[int]:
    """The conversation by the chat template, with the reply opened behind a user's turn. A BOS that the tokenizer adds
    to texts and the template does not write stands in front."""
    messages = [{"role": role, "content": content} for role, content in turns]
    ids = list(
        wrapped.apply_chat_template(
            messages, tokenize=True, return_dict=False, add_generation_prompt=turns[-1][0] == "user"
        )
    )
    return ids if bos is None or ids[0] == bos else [bos, *ids]


def spoken(
    nodes: Iterable[Node], imports: Collection[str], arguments: Mapping[str, str] | None = None, path: str = ""
) -> Turns:
    """The turns of a schema that a prompt with these imports (paths) and arguments (path/name) has."""
    turns: Turns = []
    for node in nodes:
        if isinstance(node, Turn):
            turns.append((node.role, _content(node.children, imports, arguments or {}, path)))
        elif isinstance(node, Union):
            turns += spoken(node.members, imports, arguments, path)
        elif isinstance(node, Module) and path + node.name in imports:
            turns += spoken(node.children, imports, arguments, f"{path}{node.name}/")
    return turns


def _content(nodes: Iterable[Node], imports: Collection[str], arguments: Mapping[str, str], path: str) -> str:
    content = ""
    for node in nodes:
        if isinstance(node, Text):
            content += node.text
        elif isinstance(node, Parameter):
            if value := arguments.get(path + node.name, node.default):
                content += " " * node.space + value
        elif isinstance(node, Union):
            content += _content(node.members, imports, arguments, path)
        elif isinstance(node, Module) and path + node.name in imports:
            content += _content(node.children, imports, arguments, f"{path}{node.name}/")
    return content
