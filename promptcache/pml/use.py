"""An import while its prompt is being bound."""

from __future__ import annotations

from dataclasses import dataclass, field

from promptcache.pml.bound import BoundImport
from promptcache.pml.nodes import Import, Module
from promptcache.pml.scope import parameters


@dataclass
class Use:
    """An import whose module is found. `address` tells repeats apart: `miami[1]/beaches`; [0] is not written."""

    path: str
    address: str
    module: Module
    source: Import
    occurrence: int
    inner: list[Use] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)

    def bound(self) -> BoundImport:
        """As a frozen value, with defaults filled in."""
        values = ((each.name, self.arguments.get(each.name, each.default)) for each in parameters(self.module))
        return BoundImport(
            self.path,
            self.module,
            tuple((name, value) for name, value in values if value is not None),
            tuple(use.bound() for use in self.inner),
            self.occurrence,
            self.source.span,
            self.source.argument_spans,
        )
