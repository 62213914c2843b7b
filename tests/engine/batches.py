"""Random requests, and a batch of them held against each alone, step by step."""

from __future__ import annotations

from random import Random

import torch

from promptcache import PromptCache
from promptcache.runtime.batch.batch import Batch
from promptcache.runtime.settled import Planned
from promptcache.runtime.states.state import AttentionState
from tests.engine.comparison import TOLERANCE, byte_engine, distance

LONG = "the long module is attended where it lies, word by word; " * 5
SCHEMAS = {
    "s": f"""<schema name="s">Intro. <module name="a">first <parameter name="p" length="10"/> end</module>
<module name="b">second</module><union><module name="u">one of two</module><module name="v">the other</module></union>
<module name="l">{LONG}</module><module name="c">behind it</module></schema>""",
    "t": f"""<schema name="t"><module name="x">{LONG[::-1]}</module><module name="y">why</module>
<module name="z" cache="false">never stored</module><module name="w">{LONG[9:200]}</module></schema>""",
}
REPAIRS = ("none", "none", "none", "link:3", "query:0.1", "full")


def batch_engine(layout: str = "reserved", **model: object) -> PromptCache:
    """An engine that holds both schemas. Its weights are small enough that rounding stays below a tenth of what is
    allowed, over hundreds of tokens."""
    engine = byte_engine(layout=layout, **{"initializer_range": 0.2, "max_position_embeddings": 4096, **model})
    for text in SCHEMAS.values():
        engine.load_schema(text)
    return engine


def random_prompt(random: Random, layout: str) -> str:
    """A prompt to one of the schemas or to none: imports, an argument of any length, new text of 1 to 200 tokens or
    none at all, and in the compact layout in any order, with repeats."""

    def text(most: int = 200) -> str:
        return "".join(random.choices("abcdefgh ?", k=random.choice((1, 2, random.randint(1, most))))).strip() or "?"

    schema = random.choice(["s", "s", "t", ""])
    if not schema:
        return text()
    argument = random.choice(["", f' p="{text(9)[:9]}"'])
    pieces = {"s": [f"<a{argument}/>", "<b/>", random.choice(["<u/>", "<v/>"]), "<l/>", "<c/>"]}.get(
        schema, ["<x/>", "<y/>", "<z/>", "<w/>"]
    )
    used = [piece for piece in pieces if random.random() < 0.7]
    if layout == "compact":
        used = random.choices(pieces, k=random.randint(0, 5))
        used = [piece + random.choice(["", "", text(20)]) for piece in used]
    end = random.choice(["", text(), text()]) or ("" if used else "?")
    return f'<prompt schema="{schema}">{"".join(used)}{end}</prompt>'


class Rows:
    """A batch, and each of its rows once more alone."""

    def __init__(self, engine: PromptCache) -> None:
        self.engine = engine
        self.batch = Batch(engine._adapter)
        self.alone: dict[int, AttentionState] = {}
        self.tokens: dict[int, int] = {}
        self.worst = 0.0

    def join(self, prompt: str, *, repair: str | None = None, reuse: bool = True) -> int:
        """One more row."""
        requests = self.engine._requests
        planned: Planned = self.engine._planned(prompt, reuse, repair)
        settled = requests.settle(planned)
        row = self.batch.join(settled.plan, settled.blocks)
        self.alone[row] = requests.state(planned, settled, 40)
        return row

    def leave(self, row: int) -> None:
        """One row less."""
        self.batch.leave(row)
        del self.alone[row]
        self.tokens.pop(row, None)

    def step(self) -> None:
        """One step of all, which must give what each gets alone."""
        found = self.batch.step(self.tokens)
        assert found.keys() == self.alone.keys()
        for row, logits in found.items():
            state = self.alone[row]
            alone = state.step(self.tokens[row]) if row in self.tokens else state.prefill()[-1]
            assert logits.shape == (1, len(alone)) and logits.dtype == torch.float32
            off = distance(logits[-1], alone)
            assert off < TOLERANCE, f"row {row} is off by {off}"
            self.worst = max(self.worst, off)
            self.tokens[row] = int(alone.argmax())
