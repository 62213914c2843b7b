"""Nothing that is stored is copied for a request: its peak of memory does not grow with what it reuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_STATUS = Path("/proc/self/status")

_SCRIPT = """
import sys
from promptcache import Prompt, Schema, StoreConfig
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

tokens, layout, repair = int(sys.argv[1]), *sys.argv[2:]
model = tiny_llama(
    hidden_size=256, num_attention_heads=8, num_key_value_heads=8, num_hidden_layers=4, max_position_embeddings=16384
)
engine = paper_engine(model, byte_tokenizer(), layout=layout, store=StoreConfig(disk_bytes=0))
texts = {"first": "f" * 500, "large": "word " * (tokens // 5)}
engine.load_schema(Schema.from_modules(texts, name="s", separator=""))


def field(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))


def ask(*imports):
    engine.generate(Prompt(schema="s", imports=list(imports), text="and then?"), repair=repair, max_new_tokens=4)


ask("first")
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
before = field("VmRSS")
ask("first", "large")
print(field("VmHWM") - before)
"""


def growth(tokens: int, layout: str, repair: str) -> int:
    """Kilobytes that one request adds to the peak of a fresh process."""
    command = [sys.executable, "-c", _SCRIPT, str(tokens), layout, repair]
    return int(subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True).stdout.split()[-1])


@pytest.mark.skipif(not _STATUS.exists(), reason="this system does not tell a process's peak of memory")
# In the last case a pass chooses a few tokens: more than that would have states of their own.
@pytest.mark.parametrize(("layout", "repair"), [("reserved", "none"), ("compact", "none"), ("compact", "query:0.0004")])
def test_a_request_needs_no_more_memory_for_seven_times_the_context(layout: str, repair: str):
    small, large = growth(1000, layout, repair), growth(7000, layout, repair)
    states = 6000 * 4 * 2 * 256 * 4 // 1024
    assert abs(large - small) < states / 10
