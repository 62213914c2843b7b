"""The rules of `<scaffold modules="...">`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from promptcache.errors import SchemaError
from promptcache.pml.faults import Faults
from promptcache.pml.names import shorten, suggest
from promptcache.pml.nodes import Module, Node, Scaffold
from promptcache.pml.scope import importable, join, walk


def path_names(children: Sequence[Node]) -> dict[str, str]:
    """What a word in a scaffold means: a path means itself, and a name that is no path the only module called so."""
    meant: dict[str, str] = {}
    shared: set[str] = set()
    for path, module in walk(children):
        if module.name in meant:
            shared.add(module.name)
        meant[module.name] = path
    for name in shared:
        del meant[name]
    return meant | {path: path for path, _ in walk(children)}


def check_scaffolds(children: Sequence[Node], scaffolds: Sequence[Scaffold], faults: Faults) -> None:
    """Adds to `faults`: modules that do not exist or stand twice, are not cached, or exclude each other."""
    modules = dict(_choices(children, "", ())) if scaffolds else {}
    for scaffold in scaffolds:
        for message, hint in _faults(scaffold.modules, modules):
            faults.add(SchemaError(message, hint=hint, span=scaffold.span))


Choice = tuple[str, int, str]
"""Where a union stands (the path of its module, its number there), and the member chosen."""


def _choices(
    nodes: Sequence[Node], path: str, chosen: tuple[Choice, ...]
) -> Iterator[tuple[str, tuple[Module, tuple[Choice, ...]]]]:
    """Every module's path, with the choices that importing it takes."""
    for module, union in importable(nodes):
        inner = join(path, module.name)
        taken = chosen if union is None else (*chosen, (path, union, inner))
        yield inner, (module, taken)
        yield from _choices(module.children, inner, taken)


def _faults(paths: Sequence[str], modules: dict[str, tuple[Module, tuple[Choice, ...]]]) -> Iterator[tuple[str, str]]:
    if not paths:
        yield "a scaffold without modules", 'list them: modules="one two/three"'
    seen: set[str] = set()
    members: dict[tuple[str, int], str] = {}
    for path in paths:
        if path in seen:
            yield f'the scaffold lists "{shorten(path)}" twice', "list it once"
        elif path not in modules:
            yield f'the scaffold lists "{shorten(path)}", which is no module', suggest(path, modules, what="modules")
        else:
            module, choices = modules[path]
            if not module.cache:
                yield (
                    f'the scaffold lists "{path}", which has cache="false"',
                    "its states are never stored: leave it out",
                )
            for where, union, member in choices:
                other = members.setdefault((where, union), member)
                if other != member:
                    yield (
                        f'the scaffold lists "{other}" and "{member}" of one union',
                        "a prompt imports at most one of them: list one, or write a scaffold for each",
                    )
        seen.add(path)
