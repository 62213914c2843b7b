"""What @schema can be put on, and where it finds the source."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest

from promptcache.errors import SchemaError
from promptcache.pml import Text
from promptcache.pml.python import MaxTokens, SchemaFunction, schema
from tests.pml.python.loading import HEADER, WITHOUT_ENGINE, load, marked_line

ROOT = Path(__file__).parents[3]


def test_a_function_made_by_exec_has_no_source() -> None:
    scope: dict[str, Any] = {"schema": schema}
    with pytest.raises(SchemaError) as caught:
        exec("@schema\ndef f():\n    'a'\n", scope)
    assert "source" in caught.value.message and caught.value.hint and "file" in caught.value.hint


def test_a_function_made_by_exec_is_not_mistaken_for_another_of_the_file() -> None:
    scope: dict[str, Any] = {"schema": schema}
    code = compile("\n" * 40 + "@schema\ndef f(x):\n    'a'\n", __file__, "exec")
    with pytest.raises(SchemaError, match="is not that of the function"):
        exec(code, scope)


def test_a_function_typed_into_an_interpreter_has_no_source() -> None:
    code = (
        WITHOUT_ENGINE
        + "from promptcache.pml.python import schema\n@schema\ndef f():\n    'a'\n\nprint(f.schema.to_xml())\n"
    )
    done = subprocess.run([sys.executable, "-"], input=code, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "SchemaError: @schema reads the source of `f`" in done.stderr


@pytest.mark.parametrize(
    "now", ["def f(b):\n    if b: 'a'\n", "\n\ndef f(a):\n    if a: 'a'\n", "x = 1\n", "def f(:\n", "\0"]
)
def test_a_file_that_changed_since_is_noticed(now: str, tmp_path: Path) -> None:
    module = load(tmp_path, "def f(a):\n    if a: 'a'\n")
    assert schema(module.f).schema.module("a") is not None
    Path(str(module.__file__)).write_text(HEADER + now)
    with pytest.raises(SchemaError, match="is not that of the function"):
        schema(module.f)


def test_the_right_one_of_two_functions_of_one_name_is_read(tmp_path: Path) -> None:
    module = load(tmp_path, "@schema\ndef f(): 'one'\nfirst = f\n@schema\ndef f(): 'two'\n")
    assert module.first.schema.children == (Text("one"),)
    assert module.f.schema.children == (Text("two"),)


def test_a_file_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes(
        "# -*- coding: latin-1 -*-\nfrom promptcache.pml.python import schema\n@schema\ndef f():\n    'ü'\n".encode(
            "latin-1"
        )
    )
    scope: dict[str, Any] = {"__name__": "latin"}
    exec(compile(path.read_bytes(), str(path), "exec"), scope)
    assert scope["f"].schema.children == (Text("ü"),)


def test_a_lambda_is_no_schema() -> None:
    with pytest.raises(SchemaError, match="a lambda holds no statements"):
        schema(lambda: "a")


METHOD = "class A:\n    @schema\n    def f(self, a):  # here\n        if a: 'x'\n"


def test_a_method_is_no_schema(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="`f` is a method") as caught:
        load(tmp_path, METHOD)
    assert caught.value.line == marked_line(METHOD)


@pytest.mark.parametrize("value", ["trip", 3, print, int, functools.partial(print), staticmethod(len)])
def test_other_things_are_no_functions(value: Any) -> None:
    with pytest.raises(SchemaError, match="reads the source of a function"):
        schema(value)


def test_decorators_above_are_their_own_business_and_below_are_refused(tmp_path: Path) -> None:
    source = "import functools\ndef other(f):\n    return {keep}(f)\n{above}\n@schema\n{below}\ndef g(): 'a'\n"

    def loaded(keep: str, above: str = "", below: str = "") -> Any:
        return load(tmp_path, source.format(keep=keep, above=above, below=below)).g

    assert isinstance(loaded("(lambda x: x)", above="@other"), SchemaFunction)
    assert loaded("(lambda x: x)", below="@other").schema.children == (Text("a"),)
    with pytest.raises(SchemaError, match="another decorator stands between"):
        loaded("(lambda f: functools.wraps(f)(lambda *a: f(*a)))", below="@other")
    with pytest.raises(SchemaError, match="a lambda holds"):
        loaded("(lambda f: (lambda *a: f(*a)))", below="@other")
    with pytest.raises(SchemaError, match="`g` is under @schema twice"):
        loaded("(lambda x: x)", below="@schema")


def test_the_function_keeps_its_name_and_document() -> None:
    @schema(name="other-name")
    def f() -> None:
        "first"

    assert (f.name, f.schema.name, f.__name__, f.__doc__) == ("other-name", "other-name", "f", "first")
    assert repr(f) == "<schema function 'other-name'>"


@pytest.mark.parametrize("name", ["", "two words", "1st", "<x>"])
def test_a_schema_needs_a_name_of_pml(name: str) -> None:
    @schema(name=name)
    def f() -> None:
        "first"

    with pytest.raises(SchemaError, match="is not a name"):
        _ = f.schema


def test_a_bound_may_be_named_optional_or_nested() -> None:
    Short = Annotated[str, MaxTokens(2)]

    def g(a, b, c, d, e):
        if a:
            f"{b} {c} {d} {e}"

    g.__annotations__ = {
        "b": Short,
        "c": Short | None,
        "d": Annotated[Short, MaxTokens(4)],
        "e": Annotated[str | None, "note", MaxTokens(5)],
    }
    module = schema(g).schema.module("a")
    assert module is not None
    assert [getattr(node, "length", None) for node in module.children] == [2, 2, 4, 5]


def test_annotations_need_not_be_deferred(tmp_path: Path) -> None:
    path = tmp_path / "eager.py"
    path.write_text(
        "from typing import Annotated\nfrom promptcache.pml.python import MaxTokens, schema\n"
        "@schema\ndef f(a: bool, b: Annotated[str, MaxTokens(3)]):\n    if a: f'{b}'\n"
    )
    scope: dict[str, Any] = {"__name__": "eager"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    assert scope["f"].schema.module("a") is not None


def test_many_statements_and_functions_end_well(tmp_path: Path) -> None:
    flat = "@schema\ndef f():\n" + "    'a'\n" * 20_000
    assert load(tmp_path, flat).f.schema.children == (Text("\n".join(["a"] * 20_000)),)
    chain = "".join(f"@schema\ndef f{i}(): f{i + 1}()\n" for i in range(2000)) + "@schema\ndef f2000(): 'a'\n"
    module = load(tmp_path, chain)
    with pytest.raises(SchemaError, match="calls nest deeper than 100"):
        _ = module.f0.schema
    assert len(list(module.f1950.schema.walk_modules())) == 50


def test_deep_nesting_ends_well(tmp_path: Path) -> None:
    flags = ", ".join(f"a{i}" for i in range(90))
    nested = "".join(f"{' ' * (i + 1)}if a{i}:\n" for i in range(90)) + " " * 92
    source = f"@schema\ndef f({flags}):\n{nested}'a'\n"
    deep = load(tmp_path, source).f
    assert len(list(deep.schema.walk_modules())) == 90
    source = "".join(f"@schema\ndef f{i}({flags}):\n{nested}f{i + 1}()\n" for i in range(40)) + source
    with pytest.raises(SchemaError, match="modules nest deeper than 100"):
        _ = load(tmp_path, source.replace("def f(", "def f40(")).f0.schema
