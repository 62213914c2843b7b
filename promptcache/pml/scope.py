"""What can be imported at a place, and which arguments a module takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from promptcache.pml.nodes import Module, Node, Parameter, Turn, Union


def importable(nodes: Iterable[Node]) -> Iterator[tuple[Module, int | None]]:
    """The modules that share one scope, in document order, each with the number of its outermost union, or None.

    Unions and turns open no scope of their own. Of the modules of one union a prompt imports at most one.
    """
    for union, node in enumerate(_flat(nodes)):
        if isinstance(node, Union):
            yield from ((module, union) for module in node.modules())
        else:
            yield node, None


def _flat(nodes: Iterable[Node]) -> Iterator[Module | Union]:
    for node in nodes:
        if isinstance(node, Module | Union):
            yield node
        elif isinstance(node, Turn):
            yield from _flat(node.children)


def parameters(module: Module) -> Iterator[Parameter]:
    """The module's own parameters in document order, those in its turns included."""
    return _parameters(module.children)


def _parameters(nodes: Iterable[Node]) -> Iterator[Parameter]:
    for node in nodes:
        if isinstance(node, Parameter):
            yield node
        elif isinstance(node, Turn):
            yield from _parameters(node.children)


def walk(nodes: Iterable[Node], path: str = "") -> Iterator[tuple[str, Module]]:
    """All modules with their paths, in document order, a module before those inside it."""
    for module, _ in importable(nodes):
        inner = join(path, module.name)
        yield inner, module
        yield from walk(module.children, inner)


def find(nodes: Iterable[Node], path: str) -> Module | None:
    """The module at `path`, or None."""
    module = None
    for name in path.split("/"):
        module = next((found for found, _ in importable(nodes) if found.name == name), None)
        if module is None:
            return None
        nodes = module.children
    return module


def join(path: str, name: str) -> str:
    """The path of what is called `name` inside `path`."""
    return f"{path}/{name}" if path else name
