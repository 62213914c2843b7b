"""A prompt meets its schema: what is found, and every way in which it is not."""

from __future__ import annotations

import pytest

from promptcache.errors import PromptError
from promptcache.pml import BoundImport, BoundPrompt, Module, NewText, NewTurn, Prompt, bind, parse_prompt, parse_schema
from tests.pml.faults import bind_fault, fault_of, mark, places

SCHEMA = parse_schema(
    """
    <schema name="trip">
      <user>
        Notes.
        <module name="miami">
          Miami.
          <module name="beaches">Beaches <param name="kind" len="3" default="sandy"/></module>
          <union><module name="sun">Sun</module><module name="rain">Rain</module></union>
        </module>
        <union>
          <module name="train">By train.</module>
          <union><module name="plane">By plane.</module><module name="rocket"/></union>
        </union>
        <module name="plan">
          For <param name="days" len="5"/> days with <param name="who" len="5" default=""/> and
          <module name="note">A note <param name="days" len="5"/></module>
        </module>
      </user>
    </schema>
    """
)


def bound(prompt: str | Prompt) -> BoundPrompt:
    return bind(parse_prompt(prompt) if isinstance(prompt, str) else prompt, SCHEMA)


def module(path: str) -> Module:
    found = SCHEMA.module(path)
    assert found is not None
    return found


def test_imports_are_resolved_and_defaults_filled_in() -> None:
    prompt = bound(
        '<prompt schema="trip" repair="r"><plan days="three"/>then<miami><rain/><beaches/></miami>'
        "<user>Hi</user></prompt>"
    )
    assert prompt.items == (
        BoundImport("plan", module("plan"), (("days", "three"), ("who", ""))),
        NewText("then"),
        BoundImport(
            "miami",
            module("miami"),
            imports=(
                BoundImport("miami/rain", module("miami/rain")),
                BoundImport("miami/beaches", module("miami/beaches"), (("kind", "sandy"),)),
            ),
        ),
    )
    assert (prompt.schema, prompt.turns, prompt.repair) == (SCHEMA, (NewTurn("user", "Hi"),), "r")


def test_arguments_stand_in_the_schemas_order_and_may_be_empty() -> None:
    for text in ('<plan who="us" days=""/>', '<plan days="" who="us"/>'):
        [item] = bound(f'<prompt schema="trip">{text}</prompt>').items
        assert isinstance(item, BoundImport)
        assert item.arguments == (("days", ""), ("who", "us"))


def test_an_argument_without_default_is_absent() -> None:
    [item] = bound('<prompt schema="trip"><plan/></prompt>').items
    assert isinstance(item, BoundImport)
    assert item.arguments == (("who", ""),)


def test_a_prompt_built_in_python_binds_like_its_xml() -> None:
    built = Prompt(
        "trip",
        ["miami/beaches", "miami/rain", "plane", "plan/note"],
        {"kind": "<b>", "plan/days": "three", "plan/note/days": " four"},
        messages=[{"role": "user", "content": "Hi"}],
    )
    written = """
    <prompt schema="trip">
      <miami><beaches kind="&lt;b>"/><rain/></miami> <plane/> <plan days="three"><note days=" four"/></plan>
      <user>Hi</user>
    </prompt>"""
    assert bound(built) == bound(written)


def test_repeats_are_counted_and_told() -> None:
    prompt = bound(
        Prompt(
            "trip",
            ["miami/beaches", "plan", "miami[1]/beaches", "miami[1]/beaches[1]", "plan[1]"],
            {
                "miami/beaches/kind": "a",
                "miami[1]/beaches/kind": "b",
                "miami[1]/beaches[1]/kind": "c",
                "plan[1]/days": "d",
                "plan[0]/who": "e",
            },
        )
    )
    assert [(item.path, item.occurrence, dict(item.arguments)) for item in prompt.imports()] == [
        ("miami", 0, {}),
        ("miami/beaches", 0, {"kind": "a"}),
        ("plan", 0, {"who": "e"}),
        ("miami", 1, {}),
        ("miami/beaches", 1, {"kind": "b"}),
        ("miami/beaches", 2, {"kind": "c"}),
        ("plan", 1, {"days": "d", "who": ""}),
    ]
    assert [item.path for item in prompt.repeats()] == ["miami", "miami/beaches", "miami/beaches", "plan"]
    assert list(bound('<prompt schema="trip"><plan/></prompt>').repeats()) == []
    [first, second] = bound('<prompt schema="trip"><plan days="1"/><plan days="2"/></prompt>').imports()
    assert (first.occurrence, second.occurrence) == (0, 1)


def test_a_member_may_be_repeated() -> None:
    assert len(list(bound('<prompt schema="trip"><plane/><plane/></prompt>').repeats())) == 1
    assert bound(Prompt("trip", ["miami/sun", "miami[1]/rain"])).items


FAULTS = [
    ("<prompt schema='trip'>^<miamii/></prompt>", 'schema "trip" has no module "miamii"', 'did you mean "miami"?'),
    ("<prompt schema='trip'>^<xyz/></prompt>", 'no module "xyz"', "allowed here: miami, train, plane, rocket, plan"),
    ("<prompt schema='trip'><miami>^<beach/></miami></prompt>", 'module "miami" has no module "beach"', '"beaches"?'),
    ("<prompt schema='trip'><plane>^<x/></plane></prompt>", 'module "plane" has no module "x"', "allowed here: none"),
    ("<prompt schema='trip'>^<beaches/></prompt>", '"beaches" is not imported here', "<miami><beaches/>"),
    (
        "<prompt schema='trip'><miami>^<plane/></miami></prompt>",
        '"plane" is not imported',
        "top of the prompt: <plane/>",
    ),
    (
        "<prompt schema='trip'><plan ^dayz='3'/></prompt>",
        'module "plan" has no parameter "dayz"',
        '"days"? its parameters',
    ),
    (
        "<prompt schema='trip'><plane ^days='3'/></prompt>",
        'module "plane" has no parameter "days"',
        "its parameters: none",
    ),
    (
        "<prompt schema='trip'><train/>\n^<plane/></prompt>",
        '"plane" and "train" (line 1) are members of one',
        "at most",
    ),
    ("<prompt schema='trip'><rocket/>^<plane/></prompt>", '"plane" and "rocket"', "at most one"),
    ("<prompt schema='trip'><miami><sun/>^<rain/></miami></prompt>", '"rain" and "sun"', "at most one"),
    ("^<prompt schema='trop'><miami/></prompt>", 'no schema "trop" is loaded', 'did you mean "trip"? loaded: trip'),
    ("<prompt>^<miami/></prompt>", "<miami> is imported, and the prompt names no schema", "schema="),
]


@pytest.mark.parametrize(("text", "words", "hint"), FAULTS)
def test_fault(text: str, words: str, hint: str) -> None:
    text, place = mark(text)
    fault = bind_fault(text, SCHEMA)
    assert isinstance(fault, PromptError)
    assert words in fault.message
    assert hint in (fault.hint or "")
    assert places(fault) == [place]


def test_a_schema_that_is_not_loaded() -> None:
    fault = fault_of(lambda: bind(Prompt("trop"), None, loaded=["docs", "trip"]))
    assert (fault.message, fault.hint) == ('no schema "trop" is loaded', 'did you mean "trip"? loaded: docs, trip')
    assert fault_of(lambda: bind(Prompt("trop"), None)).hint == "loaded: none"


def test_all_faults_are_found_in_one_pass() -> None:
    fault = bind_fault(
        '<prompt schema="trip">\n<a/>\n<plan x="1" days="2">\n<b/></plan><train/>\n<plane y="1"/>\n</prompt>', SCHEMA
    )
    assert places(fault) == ["2:1", "3:7", "4:1", "5:1", "5:8"]


@pytest.mark.parametrize(
    ("imports", "arguments", "words", "hint"),
    [
        (["plan"], {"plan/dayz": "x"}, 'module "plan" has no parameter "dayz"', "did you mean"),
        (["plan"], {"dayz": "x"}, 'no imported module has a parameter "dayz"', 'did you mean "days"?'),
        (["plan"], {"miami/beaches/kind": "x"}, '"miami/beaches" is not imported', "import the module"),
        (["miami"], {"miami/beaches/kind": "x"}, '"miami/beaches" is not imported', "import the module"),
        (["miami"], {"kind": "x"}, '"kind" is a parameter of "miami/beaches", which is not', "import the module"),
        (["plan"], {"plam/days": "x"}, 'schema "trip" has no module "plam"', 'did you mean "plan"?'),
        (["plan"], {"plan[1]/days": "x"}, '"plan[1]" is not imported', "imported are: plan"),
        (["plan"], {"plan/days[0]": "x"}, "numbers a parameter", "plan[1]/days"),
        (["plan"], {"plan days": "x"}, '"plan days" is not a path', "between them"),
        (["plan"], {"": "x"}, '"" is not a path', "between them"),
        (["plan/note"], {"days": "x"}, "more than one imported module", "write one of: plan/days, plan/note/days"),
        (["plan", "plan[1]"], {"who": "x"}, "more than one imported module", "plan/who, plan[1]/who"),
        (["plan"], {"plan/days": "x", "days": "y"}, '"plan/days" is given twice', "once"),
        (["plan"], {"plan/days": "x", "plan[0]/days": "y"}, '"plan/days" is given twice', "once"),
    ],
)
def test_arguments_of_a_prompt_built_in_python(
    imports: list[str], arguments: dict[str, str], words: str, hint: str
) -> None:
    fault = bind_fault(Prompt("trip", imports, arguments), SCHEMA)
    assert isinstance(fault, PromptError)
    assert words in fault.message
    assert hint in (fault.hint or "")
    assert fault.others == ()


def test_a_bare_name_is_enough_where_one_import_takes_it() -> None:
    [item] = bound(Prompt("trip", ["plan"], {"days": "x"})).items
    assert isinstance(item, BoundImport)
    assert item.arguments == (("days", "x"), ("who", ""))


def test_plain_prompts() -> None:
    prompt = bind(Prompt(text=" <a/>"), None)
    assert prompt == BoundPrompt(None, (NewText(" <a/>"),))
    assert bind(Prompt(text=" <a/>"), SCHEMA) == prompt
    fault = fault_of(lambda: bind(Prompt(imports=["a"], arguments={"p": "x"}), None))
    assert fault.message == "<a> is imported, and the prompt names no schema"
    assert fault.others[0].message == '"p" is given, and the prompt names no schema'


def test_places_of_arguments() -> None:
    [item] = bound('<prompt schema="trip">\n<plan days="x"/></prompt>').imports()
    span, own = item.argument_span("days"), item.argument_span("who")
    assert span and own
    assert [(span.line, span.column), (own.line, own.column)] == [(2, 7), (2, 1)]
    [built] = bound(Prompt("trip", ["plan"], {"days": "x"})).imports()
    assert built.argument_span("days") is None


# New text drops its leading line break where what precedes it ends in one.

ENDS = parse_schema(
    """
    <schema name="ends">
      <module name="a">A</module>
      <module name="b">B <module name="c">C</module></module>
      <module name="p">P <param name="x" len="5"/></module>
      <module name="e"/>
      <module name="last">last</module>
      <module name="q">
        Q
        <param name="x" len="5"/>
      </module>
    </schema>
    """
)


def new_text(prompt: str | Prompt) -> str:
    """The prompt's last new text."""
    parsed = parse_prompt(prompt) if isinstance(prompt, str) else prompt
    texts = [item.text for item in bind(parsed, ENDS).items if isinstance(item, NewText)]
    return texts[-1]


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ("<a/>", "t"),
        ("<last/>", "t"),
        ("<b/><last/>", "t"),
        ("<q/>", "t"),
        ("<q x=''/>", "t"),
        ("<q x='y'/>", "\nt"),
        ("<q x='y&#10;'/>", "t"),
        ("<a/><q x='y'/>", "\nt"),
        ("<b/>", "\nt"),
        ("<b><c/></b>", "t"),
        ("<p/>", "t"),
        ("<p x='y'/>", "t"),
        ("<a/><e/>", "t"),
        ("<e/>", "\nt"),
    ],
)
def test_text_behind_the_last_import(imports: str, expected: str) -> None:
    assert new_text(f'<prompt schema="ends">{imports}\nt</prompt>') == expected
    assert new_text(f'<prompt schema="ends">{imports}t</prompt>') == "t"
    assert new_text(f'<prompt schema="ends" xml:space="preserve">{imports}\nt</prompt>') == "\nt"


def test_text_between_imports() -> None:
    assert new_text('<prompt schema="ends"><a/>\nt<last/></prompt>') == "t"
    assert new_text('<prompt schema="ends"><b/>\nt<last/></prompt>') == "\nt"
    assert new_text('<prompt schema="ends"><e/>\nt<last/></prompt>') == "\nt"


def test_text_of_a_prompt_built_in_python_is_never_touched() -> None:
    assert new_text(Prompt("ends", ["a"], text="\n\nt ")) == "\n\nt "


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("<user>u<module name='m'/></user>", "\nt"),
        ("<user xml:space='preserve'>u\n</user>", "t"),
        ("<user xml:space='preserve'>u\n<module name='m'/></user>", "t"),
        ("<user>u</user><assistant xml:space='preserve'>u\n</assistant>", "\nt"),
        ("<module name='m' xml:space='preserve'>m\n<user>u</user></module>", "\nt"),
    ],
)
def test_text_behind_turns(schema: str, expected: str) -> None:
    name = "<m/>" if "'m'" in schema else ""
    prompt = parse_prompt(f'<prompt schema="s" xml:space="default"><!-- -->{name or "<x/>"}\nt</prompt>')
    extra = "" if name else "<module name='x'/>"
    parsed = parse_schema(f"<schema name='s'>{extra}{schema}</schema>")
    assert bind(prompt, parsed).items[-1] == NewText(expected)
