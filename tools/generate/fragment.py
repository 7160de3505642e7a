"""The documentation of a role's module's options, as a fragment that the module extends."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tools.generate.arguments import SHARED, Argument, shared_argument
from tools.generate.dump import block

_TEXT = '''"""Options of {whose}. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options."""

    DOCUMENTATION = r"""
{options}"""
'''


def text(name: str, module: Mapping[str, Argument]) -> str:
    """Return the file of a module's fragment."""
    own = {argument.variable: f"O({option})" for option, argument in module.items()}
    elsewhere = {option for options in SHARED.values() for option in options}
    options = {
        option: _entry(argument.spec, own)
        for option, argument in module.items()
        if option not in elsewhere
    }
    return _TEXT.format(whose=f"the module {name}", options=block({"options": options}))


def shared_text(names: Sequence[str], modules: Mapping[str, Mapping[str, Argument]]) -> str:
    """Return the file of a fragment that has options of several modules."""
    options = {name: _entry(shared_argument(name, modules).spec, {}) for name in names}
    return _TEXT.format(whose="several modules", options=block({"options": options}))


def _entry(spec: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, Any]:
    entry = {key: value for key, value in spec.items() if key != "no_log"}
    entry["description"] = _description(str(spec["description"]), own)
    if "options" in entry:
        inner = entry.pop("options")
        entry["suboptions"] = {name: _entry(each, own) for name, each in inner.items()}
    return entry


def _description(text: str, own: Mapping[str, str]) -> str:
    """Return a variable's description as one of the module's option.

    A derived default is the role's, and a variable that the module is given is one of its options.
    """
    without = re.sub(r" Default: .*?\.(?= |$)", "", text.strip())
    return re.sub(r"\w+", lambda word: own.get(word[0], word[0]), without)
