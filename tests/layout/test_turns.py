"""Turns of schema and prompt together are what the model's chat template makes of the whole conversation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache

import pytest

from promptcache.errors import SchemaError, TurnError
from promptcache.layout.borders import border_notes, prompt_border_notes
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan
from promptcache.layout.policies.reserved import Reserved
from promptcache.models.loading import LoadedModel
from promptcache.models.tokenizer import HFTokenizer
from promptcache.pml import Module, Node, Note, Prompt, Schema, Text, Turn, bind, parse_prompt, parse_schema
from tests.layout.dialogues import reference_ids, spoken, unmerged
from tests.layout.test_conversation import NAMES, orders, with_template
from tests.tiny import byte_tokenizer
from tests.tokenizers import published

CONTEXT = KeyContext(model="m", tokenizer="t", dtype="float32")
STRIPPING = ("gemma", "llama2", "llama2-legacy")


@cache
def adapter(name: str, merges: bool = True) -> HFTokenizer:
    return HFTokenizer(published(name) if merges else unmerged(name))


def lay_out(schema: Schema, tokenizer: HFTokenizer) -> SchemaLayout:
    return Reserved().lay_out(schema, tokenizer, encoding="isolated", context=CONTEXT, max_positions=None)


def plan(layout: SchemaLayout, prompt: Prompt, tokenizer: HFTokenizer) -> RequestPlan:
    return Reserved().plan(layout, bind(prompt, layout.schema), tokenizer, max_positions=None)


def notes(layout: SchemaLayout, prompt: Prompt, tokenizer: HFTokenizer) -> tuple[Note, ...]:
    return prompt_border_notes(Reserved().texts(layout, bind(prompt, layout.schema), tokenizer), tokenizer)


def as_schema(turns: Sequence[tuple[str, str]]) -> Schema:
    children: list[Node] = [Turn(role, (Text(content),) if content else ()) for role, content in turns]
    return Schema("s", tuple(children))


def as_prompt(turns: Sequence[tuple[str, str]], text: str | None = None) -> Prompt:
    prompt = Prompt("s", text=text)
    for role, content in turns:
        prompt = prompt.with_turn(role, content)
    return prompt


def split_everywhere(wrapped, tokenizer: HFTokenizer, turns: Sequence[tuple[str, str]]) -> int:
    """Checks the first k turns in the schema and the others in the prompt, for each k; how many there were."""
    expected = reference_ids(wrapped, turns, tokenizer.bos_id)
    for k in range(len(turns) + 1):
        layout = lay_out(as_schema(turns[:k]), tokenizer)
        made = plan(layout, as_prompt(turns[k:]), tokenizer)
        assert list(made.token_ids) == expected, (turns, k)
        assert list(made.position_ids) == list(range(len(expected)))
        assert made.count("reused") + made.count("repaired") == layout.num_tokens
        assert made.exact
    return len(turns) + 1


@pytest.mark.parametrize("name", NAMES)
def test_every_order_split_in_every_way(name: str) -> None:
    short = [turns for turns in orders(name) if len(turns) <= 4]
    splits = sum(split_everywhere(published(name), adapter(name), turns) for turns in short)
    assert splits == {"gemma": 36, "llama2": 26, "llama2-legacy": 26}.get(name, 546)


@pytest.mark.model
def test_every_order_split_in_every_way_on_the_default_model(real_engine_model: LoadedModel) -> None:
    wrapped = real_engine_model.tokenizer
    tokenizer = HFTokenizer(wrapped)
    for turns in orders("smollm2"):
        if len(turns) <= 3:
            split_everywhere(wrapped, tokenizer, turns)


@pytest.mark.parametrize("name", NAMES)
def test_the_schemas_last_user_turn_goes_on_in_the_prompt(name: str) -> None:
    """Cut at each character. Ids differ from the template's exactly where a border is warned of."""
    tokenizer, joined = adapter(name), 0
    for turns in orders(name):
        if len(turns) > 3:
            continue
        expected = reference_ids(published(name), turns, tokenizer.bos_id)
        for k, (role, content) in enumerate(turns):
            for cut in range(len(content) + 1) if role == "user" else ():
                layout = lay_out(as_schema([*turns[:k], (role, content[:cut])]), tokenizer)
                prompt = as_prompt(turns[k + 1 :], content[cut:])
                made = plan(layout, prompt, tokenizer)
                assert (list(made.token_ids) == expected) == (not notes(layout, prompt, tokenizer)), (turns, k, cut)
                assert list(made.position_ids) == list(range(len(made.token_ids)))
                joined += list(made.token_ids) != expected
    assert joined > 0


WHITE = (" a \n", "\n\n b", "c\t ", " \n", "")


@pytest.mark.parametrize("name", NAMES)
def test_white_space_at_the_edges_of_turns(name: str) -> None:
    """Preserved in the schema, dropped by some templates: at each split, and where the last turn goes on."""
    tokenizer, wrapped = adapter(name, merges=False), unmerged(name)
    longest = 3 if name in STRIPPING else 2
    for roles in {tuple(role for role, _ in turns) for turns in orders(name) if len(turns) <= longest}:
        for contents in itertools.product(WHITE, repeat=len(roles)):
            turns = list(zip(roles, contents, strict=True))
            if roles[0] == "system" and name.startswith("llama2") and not (contents[0] and contents[1].strip()):
                # An empty system turn counts as none; an empty user turn behind one loses markers as well.
                if contents[0]:
                    with pytest.raises(TurnError, match="changes the content of turn 2"):
                        plan(lay_out(as_schema(()), tokenizer), as_prompt(turns), tokenizer)
                continue
            expected = reference_ids(wrapped, turns, tokenizer.bos_id)
            for k in range(len(turns) + 1):
                made = plan(lay_out(as_schema(turns[:k]), tokenizer), as_prompt(turns[k:]), tokenizer)
                if list(made.token_ids) != expected:
                    # Gemma's two line breaks are one token.
                    assert name == "gemma"
                    assert notes(lay_out(as_schema(turns[:k]), tokenizer), as_prompt(turns[k:]), tokenizer)


@pytest.mark.parametrize("name", NAMES)
def test_white_space_that_a_module_brings_to_an_edge(name: str) -> None:
    """It is stored, so a template that drops it there refuses the prompt, and new text behind it helps."""
    tokenizer, wrapped = adapter(name, merges=False), unmerged(name)
    schema = Schema.from_modules({"a": "one", "b": "two"}, name="s", role="user")
    layout = lay_out(schema, tokenizer)
    for imports, text in (["a"], "Why?"), (["a", "b"], "Why?"), ([], " Why?\n"), ([], ""):
        content = spoken(schema.children, imports)[0][1] + text
        made = plan(layout, Prompt("s", imports, text=text), tokenizer)
        assert list(made.token_ids) == reference_ids(wrapped, [("user", content)], tokenizer.bos_id)
    if name in STRIPPING:
        for prompt in (Prompt("s", ["a"]), Prompt("s", ["b"], text=" \n")):
            with pytest.raises(TurnError, match="drops white space at the edge of a <user> turn") as caught:
                plan(layout, prompt, tokenizer)
            assert caught.value.hint
    else:
        made = plan(layout, Prompt("s", ["a"]), tokenizer)
        assert list(made.token_ids) == reference_ids(wrapped, [("user", "one\n")], tokenizer.bos_id)


DIALOGUES = """<schema name="s">
 {system}
 <module name="m"><user>One?</user><assistant>Yes.</assistant></module>
 <module name="n"><user>Two?</user><assistant>No.</assistant></module>
 {last}
</schema>"""
SYSTEM, LAST = "<system>Sys.</system>", "<user>Three?</user>"


DEFAULT, LLAMA = ("smollm2", "qwen2.5"), ("llama2", "llama2-legacy")


@pytest.mark.parametrize(
    ("system", "last", "refused"),
    [
        # A default system turn, or Llama 2's BOS, opens the turn that comes first. A second one cannot have it too.
        ("", "", {each: {"mn": "3"} for each in (*DEFAULT, *LLAMA)}),
        ("", LAST, {each: {"m": "3", "n": "3", "mn": "3"} for each in (*DEFAULT, *LLAMA)}),
        # Llama 2 folds the system turn into the user's turn that comes first, and writes none without one.
        (SYSTEM, "", {each: {"": "1", "mn": "4"} for each in LLAMA}),
        (SYSTEM, LAST, {each: {"m": "4", "n": "4", "mn": "4"} for each in LLAMA}),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_turns_in_modules(name: str, system: str, last: str, refused: dict[str, dict[str, str]]) -> None:
    """Imported and not. `refused` gives for the imports that make a stored turn change the number of that turn."""
    tokenizer, wrapped = adapter(name), published(name)
    schema = parse_schema(DIALOGUES.format(system=system, last=last))
    if name == "gemma" and system:
        with pytest.raises(TurnError, match="System role not supported"):
            lay_out(schema, tokenizer)
        return
    layout = lay_out(schema, tokenizer)
    for imports in ("", "m", "n", "mn"):
        prompt = Prompt("s", list(imports))
        turns = spoken(schema.children, imports)
        if number := refused.get(name, {}).get(imports):
            with pytest.raises(TurnError, match=f"turn {number}") as caught:
                plan(layout, prompt, tokenizer)
            assert caught.value.hint
            role, content = turns[int(number) - 1]
            assert caught.value.span
            assert caught.value.span.source.line(caught.value.span.line)[caught.value.span.column - 1 :].startswith(
                f"<{role}>{content}"
            )
        elif turns:
            made = plan(layout, prompt, tokenizer)
            equal = list(made.token_ids) == reference_ids(wrapped, turns, tokenizer.bos_id)
            # A tokenizer with a dummy space at the very start, and any of these turns may come first.
            assert equal == (not notes(layout, prompt, tokenizer))
            assert equal or (name == "zephyr" and border_notes(layout, tokenizer))


def test_a_default_system_turn_that_goes() -> None:
    tokenizer, wrapped = adapter("smollm2"), published("smollm2")
    schema = parse_schema('<schema name="s"><module name="m"><system>Sys.</system></module>\n<user>Hi</user></schema>')
    layout = lay_out(schema, tokenizer)
    made = plan(layout, Prompt("s"), tokenizer)
    assert list(made.token_ids) == reference_ids(wrapped, [("user", "Hi")], None)
    with pytest.raises(TurnError, match=r"laid out at turn 2 \(<user>\).*SmolLM") as caught:
        plan(layout, Prompt("s", ["m"]), tokenizer)
    assert caught.value.hint and "default system turn" in caught.value.hint
    assert (caught.value.line, caught.value.column) == (2, 1)


@pytest.mark.parametrize(
    ("condition", "goes"),
    [
        ("messages[-1].role == 'user'", True),
        ("messages | length > 1", False),
        ("messages | selectattr('role', 'equalto', 'system') | list", False),
    ],
)
def test_a_default_system_turn_that_the_last_turn_decides(condition: str, goes: bool) -> None:
    tokenizer = with_template(
        "{% if " + condition + " %}[default]{% endif %}"
        "{% for m in messages %}[{{ m.role }}]{{ m.content }};{% endfor %}{{ '[assistant]' if add_generation_prompt }}"
    )
    layout = lay_out(as_schema([("user", "Hi")]), tokenizer)
    assert plan(layout, as_prompt([]), tokenizer).exact
    expected, found = ("[default][user]", "[user]") if goes else ("[user]", "[default][user]")
    with pytest.raises(TurnError, match=r"laid out at turn 1 \(<user>\)") as caught:
        plan(layout, as_prompt([("assistant", "Yes"), ("system", "Sys")]), tokenizer)
    assert f"expected {expected!r}, found {found!r}" in caught.value.message


def test_a_closing_marker_that_changes_when_turns_follow() -> None:
    tokenizer = with_template("{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ '.' if loop.last }}{% endfor %}")
    layout = lay_out(as_schema([("user", "Hi"), ("assistant", "Yes")]), tokenizer)
    assert plan(layout, as_prompt([]), tokenizer).num_tokens == layout.num_tokens
    with pytest.raises(TurnError, match=r"laid out at turn 3 \(<user>\): expected '\..*found '<user>'"):
        plan(layout, as_prompt([("user", "Why?")]), tokenizer)
    # A user turn at the end is closed by each prompt.
    open_layout = lay_out(as_schema([("user", "Hi")]), tokenizer)
    text = b"<user>Hi there<assistant>Yes."
    made = plan(open_layout, as_prompt([("assistant", "Yes")], text=" there"), tokenizer)
    assert tokenizer.decode(made.token_ids).encode() == text


def test_orders_that_the_template_refuses() -> None:
    gemma = adapter("gemma")
    with pytest.raises(TurnError, match="System role not supported") as caught:
        lay_out(parse_schema('<schema name="s">\n<system>Sys.</system></schema>'), gemma)
    assert caught.value.line == 2
    layout = lay_out(parse_schema('<schema name="s"><user>Hi</user><assistant>Yes</assistant></schema>'), gemma)
    with pytest.raises(TurnError, match="must alternate") as caught:
        plan(layout, parse_prompt('<prompt schema="s">\n <assistant>No</assistant></prompt>'), gemma)
    assert caught.value.hint and caught.value.span
    # Modules whose turns fit only together cannot be laid out: each must be able to stand without its siblings.
    with pytest.raises(TurnError, match="must alternate"):
        lay_out(parse_schema('<schema name="s"><module name="m"><assistant>Yes</assistant></module></schema>'), gemma)
    llama = adapter("llama2")
    layout = lay_out(as_schema([("system", "Sys.")]), llama)
    with pytest.raises(TurnError, match=r"leaves out turn 1 \(system\)"):
        plan(layout, as_prompt([]), llama)


def test_models_without_a_template() -> None:
    tokenizer = HFTokenizer(byte_tokenizer(template=None))
    with pytest.raises(SchemaError, match="<user> needs a chat template") as fault:
        lay_out(parse_schema('<schema name="s">Text.\n<user>Hi</user></schema>'), tokenizer)
    assert fault.value.hint and fault.value.line == 2
    layout = lay_out(parse_schema('<schema name="s">Text.</schema>'), tokenizer)
    with pytest.raises(TurnError, match="<user> needs a chat template") as caught:
        plan(layout, parse_prompt('<prompt schema="s">\n<user>Hi</user></prompt>'), tokenizer)
    assert caught.value.hint and caught.value.line == 2


@pytest.mark.parametrize(
    ("name", "before", "turn", "reply"),
    [
        ("smollm2", "", adapter("smollm2").render([("user", "Hi")], open_assistant=False), "<|im_start|>assistant\n"),
        ("gemma", "<bos>", "<start_of_turn>user\nHi<end_of_turn>\n", "<start_of_turn>model\n"),
    ],
)
def test_text_outside_of_turns_stays_where_it_is(name: str, before: str, turn: str, reply: str) -> None:
    schema = Schema("s", (Text("Start. "), Turn("user", (Text("Hi"),)), Module("m", (Text("fine."),))))
    made = plan(lay_out(schema, adapter(name)), Prompt("s", ["m"], text="Where?"), adapter(name))
    written = published(name).decode(made.token_ids, skip_special_tokens=False)
    assert written == f"{before}Start. {turn}fine.Where?{reply}"
