"""What a schema function cannot say is an error at its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from promptcache.errors import SchemaError
from tests.pml.python.loading import load, marked_line

# The body of a function with the arguments `flag`, `by` and the bounded `days`; the text that the message must hold.
BODIES = {
    "for": ("for _ in range(3):  # here\n    'a'", "`for` loop"),
    "while": ("while flag:  # here\n    'a'", "`while` loop"),
    "assignment": ("'a'\nx = 3  # here", "assignment"),
    "annotated assignment": ("x: int = 3  # here", "assignment"),
    "augmented assignment": ("flag += 1  # here", "assignment"),
    "walrus": ("(x := 3)  # here", "assignment"),
    "return value": ("return 'a'  # here", "`return`"),
    "bare return": ("return  # here", "`return`"),
    "try": ("try:  # here\n    'a'\nfinally:\n    'b'", "`try`"),
    "lambda": ("lambda: 'a'  # here", "lambda"),
    "nested def": ("def inner():  # here\n    'a'", "nested function"),
    "nested class": ("class Inner:  # here\n    'a'", "nested class"),
    "import": ("import os  # here", "import"),
    "import from": ("from os import path  # here", "import"),
    "yield": ("yield 'a'  # here", "`yield`"),
    "yield from": ("yield from 'a'  # here", "`yield from`"),
    "assert": ("assert flag  # here", "`assert flag`"),
    "delete": ("del flag  # here", "`del flag`"),
    "raise": ("raise ValueError  # here", "`raise ValueError`"),
    "global": ("global load  # here", "`global load`"),
    "bytes": ("b'a'  # here", "`b'a'`"),
    "number": ("'a'\n7  # here", "`7`"),
    "a variable": ("HEADER  # here", "`HEADER`"),
    "concatenation": ("'a' + HEADER  # here", "`'a' + HEADER`"),
    "a method of a string": ("'a'.strip()  # here", "call of an expression"),
    "percent format": ("'%s' % days  # here", "days`"),
    "f-string expression": ("if flag:\n    f'{len(days)}'  # here", "`{len(days)}`"),
    "f-string constant": ("f'{3}'  # here", "`{3}`"),
    "format spec": ("if flag:\n    f'{days:>5}'  # here", "`{days}` has a format"),
    "conversion": ("if flag:\n    f'{days!r}'  # here", "`{days}` has a format"),
    "debug format": ("if flag:\n    f'{days=}'  # here", "`{days}` has a format"),
    "unbounded": ("if by == 'a':\n    f'{flag}'  # here", "`flag` has no bound"),
    "no argument": ("if flag:\n    f'{HEADER}'  # here", "`HEADER` is not an argument"),
    "a text condition": ("if days:  # here\n    'a'", "bounded by MaxTokens"),
    "not": ("if not flag:  # here\n    'a'", "`not flag`"),
    "and": ("if flag and by:  # here\n    'a'", "`flag and by`"),
    "comparison": ("if by != 'a':  # here\n    'a'", "`by != 'a'`"),
    "chained comparison": ("if 'a' == by == 'b':  # here\n    'a'", "`'a' == by == 'b'`"),
    "compared to a variable": ("if by == flag:  # here\n    'a'", "`flag` is not a constant"),
    "compared to a float": ("if by == 1.5:  # here\n    'a'", "`1.5` is not a constant"),
    "elif": ("if flag:\n    'a'\nelif fla:  # here\n    'b'", "`fla` is not an argument"),
    "match on an expression": ("match by.lower():  # here\n    case 'a': 'a'", "`by.lower()`"),
    "capture": ("match by:\n    case other:  # here\n        'a'", "`case other`"),
    "class pattern": ("match by:\n    case str():  # here\n        'a'", "`case str()`"),
    "guard": ("match by:\n    case 'a' if flag:  # here\n        'a'", "guard"),
    "other with": ("with open('a'):  # here\n    'a'", "`with open('a')`"),
    "with as": ("with system() as s:  # here\n    'a'", "is no turn"),
    "two turns at once": ("with system(), user():  # here\n    'a'", "is no turn"),
    "turn with a value": ("with system('a'):  # here\n    'a'", "is no turn"),
    "starred": ("load(*by)  # here", "`*` argument"),
    "double starred": ("load(**by)  # here", "`**` argument"),
    "computed value": ("load(by + 'a')  # here", "computed value"),
    "keyword variable": ("load(x=HEADER)  # here", "`HEADER` is not an argument"),
    "control character": ("'a'\n'\\x00'  # here", "U+0000"),
    "lone surrogate": ("'\\ud800'  # here", "U+D800"),
}


@pytest.mark.parametrize("body, message", BODIES.values(), ids=BODIES.keys())
def test_a_statement_with_no_meaning_is_an_error_at_its_line(body: str, message: str, tmp_path: Path) -> None:
    indented = body.replace("\n", "\n    ")
    source = f"HEADER = 'x'\n@schema\ndef f(flag, by, days: Annotated[str, MaxTokens(5)]):\n    {indented}\n"
    with pytest.raises(SchemaError) as caught:
        load(tmp_path, source)
    assert message in caught.value.message
    assert caught.value.line == marked_line(source)
    assert caught.value.file is not None and Path(caught.value.file).parent == tmp_path
    assert "# here" in str(caught.value)


# Whole functions; the fault shows when `f.schema` is asked for, at the latest.
FUNCTIONS = {
    "async": ("async def f():  # here\n    'a'", "async"),
    "starred argument": ("def f(*flags):  # here\n    'a'", "*flags"),
    "double starred argument": ("def f(**flags):  # here\n    'a'", "*flags"),
    "unused argument": ("def f(flag, other):  # here\n    if flag: 'a'", "`other` is not used"),
    "bad member name": (
        "def f(by):\n    match by:\n        case 'night train': 'a'  # here",
        '"night train" is not a name',
    ),
    "reserved member name": ("def f(by):\n    match by:\n        case 'user': 'a'  # here", '"user" is reserved'),
    "empty member name": ("def f(by):\n    if by == '': 'a'  # here", '"" is not a name'),
    "element as flag": ("def f(user):\n    if user: 'a'  # here", '"user" is reserved'),
    "default of another type": ("def f(by=1.5):  # here\n    if by == 'a': 'a'", "1.5"),
    "default outside": ("def f(by='x'):  # here\n    if by == 'a': 'a'", "`by` cannot be 'x'"),
    "flag default": ("def f(flag=1):  # here\n    if flag: 'a'", "`flag` is a flag"),
    "text default": (
        "def f(flag, days: Annotated[str, MaxTokens(5)] = True):  # here\n    if flag: f'{days}'",
        "default of `days` must be text",
    ),
    "bound without number": ("def f(a, b: Annotated[str, MaxTokens]):  # here\n    if a: f'{b}'", "without a number"),
    "bounded number": ("def f(a, b: Annotated[int, MaxTokens(5)]):  # here\n    if a: f'{b}'", "MaxTokens bounds text"),
    "unknown annotation": ("def f(a: Nothing):  # here\n    if a: 'a'", "'Nothing' is not defined"),
    "flag and choice": ("def f(a):\n    if a: 'a'\n    if a == 'b': 'b'  # here", "used as a choice here"),
    "text outside modules": ("def f(a: Annotated[str, MaxTokens(5)]):\n    f'{a}'  # here", "outside every module"),
    "flag twice": ("def f(a):\n    if a: 'a'\n    'b'\n    if a: 'c'  # here", 'two modules "a"'),
    "flag twice across a turn": (
        "def f(a):\n    if a: 'a'\n    with user():\n        if a: 'c'  # here",
        'two modules "a"',
    ),
    "constant twice": (
        "def f(a):\n    match a:\n        case 'b': 'x'\n        case 'b': 'y'  # here",
        'two modules "b"',
    ),
    "argument twice": (
        "def f(a, b: Annotated[str, MaxTokens(5)]):\n    if a:\n        f'{b}'\n        f'{b}'  # here",
        'two parameters "b"',
    ),
    "turn in a turn": ("def f():\n    with user():\n        with system(): 'a'  # here", "stands inside <user>"),
    "call of nothing": ("def f():\n    beachs()  # here\n@schema\ndef beaches(): 'a'", "no `beachs`"),
    "call of a plain function": ("def f():\n    g()  # here\ndef g(): 'a'", "`g` is not a function under @schema"),
    "call of a builtin": ("def f():\n    print('a')  # here", "`print` is not a function under @schema"),
    "call of a turn": ("def f():\n    user()  # here", "`user` is not a function under @schema"),
    "call of itself": ("def f():\n    'a'\n    f()  # here", "f > f"),
    "call in a circle": ("def f():\n    g()\n@schema\ndef g():\n    f()  # here", "f > g > f"),
    "called twice": ("def f():\n    g()\n    g()  # here\n@schema\ndef g(): 'a'", 'two modules "g"'),
    "unknown argument in a call": (
        "def f(a):\n    g(shinny=a)  # here\n@schema\ndef g(shiny):\n    if shiny: 'a'",
        "shinny",
    ),
    "too many in a call": ("def f(a):\n    g(a, a)  # here\n@schema\ndef g(b):\n    if b: 'a'", "1 values by position"),
    "twice in a call": ("def f(a):\n    g(a, b=a)  # here\n@schema\ndef g(b):\n    if b: 'a'", "`b` twice"),
    "wrong constant in a call": (
        "def f():\n    g('x')  # here\n@schema\ndef g(b):\n    if b == 'a': 'a'",
        "`b` cannot be 'x'",
    ),
    "fault in a called function": ("def f():\n    g()\n@schema\ndef g():\n    h()  # here", "no `h`"),
    "turn by a call in a turn": (
        "def f():\n    with user():\n        g()\n@schema\ndef g():\n    with user(): 'a'  # here",
        "stands inside <user>",
    ),
}


@pytest.mark.parametrize("code, message", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_a_function_that_is_no_schema_is_an_error_at_its_line(code: str, message: str, tmp_path: Path) -> None:
    source = f"@schema\n{code}\n"
    with pytest.raises(SchemaError) as caught:
        _ = load(tmp_path, source).f.schema
    assert message in caught.value.message
    assert caught.value.line == marked_line(source)


def test_hints_name_what_was_probably_meant(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match='did you mean "beaches"'):
        _ = load(tmp_path, "@schema\ndef f(): beachs()\n@schema\ndef beaches(): 'a'\n").f.schema
    with pytest.raises(SchemaError, match='did you mean "miami"'):
        load(tmp_path, "@schema\ndef f(miami):\n    if miam: 'a'\n")
    with pytest.raises(SchemaError, match='did you mean "shiny"'):
        _ = load(tmp_path, "@schema\ndef f(a): g(shinny=a)\n@schema\ndef g(shiny):\n    if shiny: 'a'\n").f.schema


def test_columns_count_characters(tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as caught:
        load(tmp_path, "@schema\ndef f(a):\n    if a: 'ü'; x = 3\n")
    assert caught.value.column == len("    if a: 'ü'; ") + 1
