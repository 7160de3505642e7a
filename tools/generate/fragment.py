"""The documentation of a role's module's options, as a fragment that the module extends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tools.generate.arguments import Argument
from tools.generate.dump import block

_TEXT = '''"""Options of the module {name}. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The module's options."""

    DOCUMENTATION = r"""
{options}"""
'''


def text(name: str, module: Mapping[str, Argument]) -> str:
    """Return the file of a module's fragment."""
    own = {argument.variable: f"O({option})" for option, argument in module.items()}
    options = {option: _entry(argument.spec, own) for option, argument in module.items()}
    return _TEXT.format(name=name, options=block({"options": options}))


def _entry(spec: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, Any]:
    entry = {key: value for key, value in spec.items() if key != "no_log"}
    # The module's own options, where the description names the variables that give them.
    entry["description"] = re.sub(
        r"\w+", lambda word: own.get(word[0], word[0]), str(spec["description"])
    )
    if "options" in entry:
        inner = entry.pop("options")
        entry["suboptions"] = {name: _entry(each, own) for name, each in inner.items()}
    return entry
