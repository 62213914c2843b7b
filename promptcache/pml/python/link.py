"""Resolves the calls of a schema function, and what each of its arguments can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from promptcache.errors import SchemaError
from promptcache.pml.document import MAX_DEPTH
from promptcache.pml.python.arguments import Argument
from promptcache.pml.python.body import Branch, Call, Choice, Given, Line, Passed, Speech, Statement
from promptcache.pml.python.domain import Domain
from promptcache.pml.python.match import matched
from promptcache.source import Span


@dataclass(frozen=True, eq=False)
class Compiled:
    """A function as its own source says it. `lookup` gives the schema function that a dotted name stands for."""

    name: str
    arguments: Mapping[str, Argument]
    body: tuple[Statement, ...]
    lookup: Callable[[str, Span], Compiled]
    span: Span


@dataclass(frozen=True, eq=False)
class Program:
    """A function whose calls are resolved: `callees` by the dotted names that the source calls them by."""

    name: str
    arguments: Mapping[str, Argument]
    domains: Mapping[str, Domain]
    body: tuple[Statement, ...]
    callees: Mapping[str, Program]
    span: Span

    def only_call(self, branch: Branch) -> Call | None:
        """The call that makes up `branch`, where it is of a function with the branch's name: both are one module."""
        match branch.body:
            case [Call() as call] if self.callees[call.target].name == branch.name:
                return call
        return None


def link(compiled: Compiled, callers: tuple[Compiled, ...] = ()) -> Program:
    """Resolves all calls, those inside the called functions included.

    Raises SchemaError for a call of what is no schema function, of itself, or with values that do not fit; for an
    argument that is used in two ways, or in none; and for a default that does not fit.
    """
    callers = (*callers, compiled)
    if len(callers) > MAX_DEPTH:
        raise SchemaError(f"calls nest deeper than {MAX_DEPTH}", hint="nest fewer calls", span=compiled.span)
    callees: dict[str, Program] = {}
    for call in _calls(compiled.body):
        if call.target not in callees:
            callee = compiled.lookup(call.target, call.span)
            if callee in callers:
                path = " > ".join(caller.name for caller in (*callers[callers.index(callee) :], callee))
                raise SchemaError(
                    f"a module cannot hold itself: {path}", hint="take the call out of the circle", span=call.span
                )
            callees[call.target] = link(callee, callers)
    domains = _domains(compiled, callees)
    return Program(compiled.name, compiled.arguments, domains, compiled.body, callees, compiled.span)


def _domains(compiled: Compiled, callees: Mapping[str, Program]) -> dict[str, Domain]:
    domains: dict[str, Domain] = {}
    for name, domain, span in _uses(compiled.body, callees):
        merged = domains[name].merged(domain) if name in domains else domain
        if merged is None:
            raise SchemaError(
                f"`{name}` is used as a {domain.kind} here, and as a {domains[name].kind} before",
                hint="use two arguments",
                span=span,
            )
        domains[name] = merged
    for name, argument in compiled.arguments.items():
        if name not in domains:
            raise SchemaError(
                f"the argument `{name}` is not used",
                hint="ask for it with `if`, place it in an f-string, hand it on, or drop it",
                span=argument.span,
            )
        fault = domains[name].fault(name, argument.default)
        if argument.default is not None and fault is not None:
            raise SchemaError(f"the default does not fit: {fault[0]}", hint=fault[1], span=argument.span)
    return domains


def _uses(body: tuple[Statement, ...], callees: Mapping[str, Program]) -> Iterator[tuple[str, Domain, Span]]:
    for statement in body:
        match statement:
            case Line(slots=slots):
                yield from ((slot.argument, Domain("text"), slot.span) for slot in slots)
            case Speech(body=inner):
                yield from _uses(inner, callees)
            case Branch():
                yield from _asked((statement,), callees)
            case Choice(branches=branches):
                yield from _asked(branches, callees)
            case Call():
                yield from _handed_on(statement, callees[statement.target])


def _asked(branches: tuple[Branch, ...], callees: Mapping[str, Program]) -> Iterator[tuple[str, Domain, Span]]:
    takes_rest = any(branch.condition is None for branch in branches)
    for branch in branches:
        if condition := branch.condition:
            flag = condition.values is None
            domain = Domain("flag") if flag else Domain("choice", condition.values or (), takes_rest)
            yield condition.argument, domain, condition.span
        yield from _uses(branch.body, callees)


def _handed_on(call: Call, callee: Program) -> Iterator[tuple[str, Domain, Span]]:
    for name, given in given_values(call, callee).items():
        if isinstance(given.value, Passed):
            yield given.value.argument, callee.domains[name], given.span
        elif fault := callee.domains[name].fault(name, given.value):
            raise SchemaError(fault[0], hint=fault[1], span=given.span)


def given_values(call: Call, callee: Program) -> dict[str, Given]:
    """What `call` gives for each argument of `callee`; the others keep their defaults."""
    positional = [given for given in call.values if given.keyword is None]
    named = [(given.keyword, given) for given in call.values if given.keyword is not None]
    return matched(callee.name, callee.arguments, positional, named, partial(_call_fault, call))


def _call_fault(call: Call, message: str, hint: str | None) -> SchemaError:
    return SchemaError(message, hint=hint, span=call.span)


def _calls(body: tuple[Statement, ...]) -> Iterator[Call]:
    for statement in body:
        match statement:
            case Call():
                yield statement
            case Choice(branches=branches):
                for branch in branches:
                    yield from _calls(branch.body)
            case Branch(body=inner) | Speech(body=inner):
                yield from _calls(inner)
