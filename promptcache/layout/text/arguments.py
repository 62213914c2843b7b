"""An argument's text to the ids that fill a parameter."""

from __future__ import annotations

from promptcache.errors import PromptError
from promptcache.layout.text.pieces import encode
from promptcache.layout.text.tokenizer import Tokenizer
from promptcache.layout.text.tree import ParameterNode
from promptcache.pml import BoundImport


def argument_ids(tokenizer: Tokenizer, item: BoundImport, node: ParameterNode, text: str) -> tuple[int, ...]:
    """At most `node.length` ids; none for an empty argument, which takes no space either.

    Raises PromptError when the argument is longer than its parameter.
    """
    if not text:
        return ()
    ids = encode(tokenizer, (" " * node.space + text,), before=node.before, start=node.start)
    if len(ids) > node.length:
        raise PromptError(
            f"the argument {node.name!r} of {item.path!r} takes {len(ids)} tokens, and its length allows {node.length}",
            hint=f"shorten it, or give the parameter length={len(ids)} in the schema",
            span=item.argument_span(node.name),
        )
    return ids
