"""Where a schema's elements start when every one of them is there."""

from __future__ import annotations

from promptcache.layout.text.tree import ModuleNode, ParameterNode, SegmentNode


class Places:
    """Start positions by segment index, (module path, parameter name) and module path, counted with every module, the
    longest member of every union and every parameter's full length; `end` is the position behind the last."""

    def __init__(self, root: ModuleNode) -> None:
        self.segments: dict[int, int] = {}
        self.parameters: dict[tuple[str, str], int] = {}
        self.modules: dict[str, int] = {}
        self.end = self._walk(root, 0)

    def _walk(self, module: ModuleNode, start: int) -> int:
        self.modules[module.path] = position = start
        for item in module.items:
            if isinstance(item, SegmentNode):
                self.segments[item.index] = position
            elif isinstance(item, ParameterNode):
                self.parameters[module.path, item.name] = position
            else:
                for member in (item,) if isinstance(item, ModuleNode) else item.members:
                    self._walk(member, position)
            position += item.length
        return position
