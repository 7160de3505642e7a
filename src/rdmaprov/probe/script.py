"""Programs for nodes: one source file, with the modules of rdmaprov.node that it imports inside."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import rdmaprov.node

_NODE = Path(rdmaprov.node.__file__).parent
_IMPORT = re.compile(r"^from rdmaprov\.node(?:\.(\w+))? import (\([^)]*\)|[\w, ]+)", re.MULTILINE)
# The node has no rdmaprov: its modules are made from the sources that come along.
_PROVIDE = """\
import sys, types
def _provide(name, source=""):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
    parent, _, leaf = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], leaf, module)
_provide("rdmaprov")
_provide("rdmaprov.node")
"""


@cache
def node_script(program: Path) -> bytes:
    """Return a program's source that needs nothing but Python on the node."""
    source = program.read_text(encoding="utf-8")
    parts = list(dict.fromkeys(_needed(source)))
    if not parts:
        return source.encode()
    provided = [f"_provide('rdmaprov.node.{part}', {_source(part)!r})\n" for part in parts]
    return "".join([_PROVIDE, *provided, source]).encode()


def _needed(source: str) -> Iterator[str]:
    """Yield the modules that a source imports, each behind those that it imports itself."""
    for module, imported in _IMPORT.findall(source):
        for part in [module] if module else re.findall(r"\w+", imported):
            yield from _needed(_source(part))
            yield part


def _source(part: str) -> str:
    return (_NODE / f"{part}.py").read_text(encoding="utf-8")
