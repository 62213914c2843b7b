"""`@schema`: a Python function as a schema, and its calls as prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, update_wrapper
from types import FunctionType
from typing import overload

from promptcache.errors import RequestError, SchemaError
from promptcache.pml.names import suggest
from promptcache.pml.prompt import Prompt
from promptcache.pml.python.arguments import read_arguments
from promptcache.pml.python.choose import choose
from promptcache.pml.python.compiler import Compiler
from promptcache.pml.python.declare import declare
from promptcache.pml.python.link import Compiled, Program, link
from promptcache.pml.python.locate import locate
from promptcache.pml.python.match import matched
from promptcache.pml.python.namespace import look_up
from promptcache.pml.python.turns import TurnMark
from promptcache.pml.schema import Schema
from promptcache.source import Span


class SchemaFunction:
    """A function read as a schema. It is never run.

    Its statements are read when it is decorated; the functions that it calls are looked up when `schema` is first
    asked for, so they may stand further down in the file. Both raise SchemaError with the file and line.
    """

    def __init__(self, function: FunctionType, name: str | None = None) -> None:
        located = locate(function)
        span = located.span(located.node)
        arguments = {argument.name: argument for argument in read_arguments(function, located)}
        body = Compiler(arguments, located, partial(look_up, function)).body(located.node.body)
        lookup = partial(_callee, function)
        self._compiled = Compiled(function.__name__ if name is None else name, arguments, body, lookup, span)
        update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<schema function {self._compiled.name!r}>"

    @property
    def name(self) -> str:
        """The schema's name, and the module's where another schema function calls this one."""
        return self._compiled.name

    @cached_property
    def _program(self) -> Program:
        return link(self._compiled)

    @cached_property
    def schema(self) -> Schema:
        """The schema that the function declares; always the same one."""
        return declare(self._program)

    def __call__(
        self,
        /,
        *values: object,
        text: str | None = None,
        messages: Sequence[Mapping[str, str]] | None = None,
        repair: str | None = None,
        **named: object,
    ) -> Prompt:
        """The prompt that imports what the function says for these values.

        Values are matched to arguments as Python does it, but any may be left out: then its default counts, and
        without one it imports nothing (a flag is false, a choice none, a text empty). `text`, `messages` and `repair`
        are those of `Prompt`, unless the function has an argument of that name. Raises RequestError for an unknown
        argument or a value that does not fit, and SchemaError as `schema` does.
        """
        name, program = self.schema.name, self._program
        for own, new in (("text", text), ("messages", messages), ("repair", repair)):
            if own in program.arguments and new is not None:
                named[own] = new
        given = matched(name, program.arguments, values, named.items(), _call_fault)
        for argument, value in given.items():
            if fault := program.domains[argument].fault(argument, value):
                raise RequestError(f"{name}(): {fault[0]}", hint=fault[1])
        chosen = choose(program, given)
        return Prompt(
            schema=name,
            imports=chosen.imports,
            arguments=chosen.arguments,
            messages=None if "messages" in program.arguments else messages,
            text=None if "text" in program.arguments else text,
            repair=None if "repair" in program.arguments else repair,
        )


@overload
def schema(function: Callable[..., object], /) -> SchemaFunction: ...


@overload
def schema(*, name: str | None = None) -> Callable[[Callable[..., object]], SchemaFunction]: ...


def schema(
    function: Callable[..., object] | None = None, /, *, name: str | None = None
) -> SchemaFunction | Callable[[Callable[..., object]], SchemaFunction]:
    """Reads the decorated function as a schema (PML.md section 6).

    Every string statement is text, the first one included. A string takes lines of its own and is dedented; `""` is an
    empty line. `{days}` in an f-string is a parameter, for an argument annotated `Annotated[str, MaxTokens(5)]`.
    `if miami:` is a module `miami`. `if`/`elif`/`else` and `match` are unions, whose members are named by their flags
    or by the constants compared to; `else` and `case _` by the first argument asked about (`by.else`). A call of
    another schema function is a nested module; as the only statement of a branch that has the function's name it is the
    branch's module. `with system():`, `user()`, `assistant()` are turns. `pass` is nothing. All else is an error.
    """
    if function is None:
        return partial(_decorated, name=name)
    return _decorated(function, name)


def _decorated(function: Callable[..., object], name: str | None) -> SchemaFunction:
    if isinstance(function, SchemaFunction):
        raise SchemaError(f"`{function.name}` is under @schema twice", hint="drop one", span=function._compiled.span)
    if not isinstance(function, FunctionType):
        raise SchemaError(
            f"@schema reads the source of a function, and {function!r} is none",
            hint="put @schema right above `def`, under all other decorators; give a name as @schema(name='trip')",
        )
    if hasattr(function, "__wrapped__"):
        raise SchemaError(
            f"another decorator stands between @schema and `{function.__name__}`, and would have no effect",
            hint="put @schema right above `def`",
        )
    return SchemaFunction(function, name)


def _callee(function: FunctionType, target: str, span: Span) -> Compiled:
    found = look_up(function, target)
    if isinstance(found, SchemaFunction):
        return found._compiled
    if found is None:
        known = [name for name, value in function.__globals__.items() if isinstance(value, SchemaFunction)]
        raise SchemaError(f"there is no `{target}`", hint=suggest(target, known, what="schema functions"), span=span)
    is_mark = isinstance(found, TurnMark)
    hint = f"write `with {target}():` around what is said" if is_mark else "decorate it with @schema"
    raise SchemaError(f"`{target}` is not a function under @schema", hint=hint, span=span)


def _call_fault(message: str, hint: str | None) -> RequestError:
    return RequestError(message, hint=hint)
