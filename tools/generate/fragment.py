"""The documentation of the modules' options, as fragments that the modules extend."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tools.generate.arguments import SHARED, Argument, shared_argument
from tools.generate.dump import block

_HEAD = '''"""Options of the modules. Written by `make generate`; changes here are lost."""

from __future__ import annotations


class ModuleDocFragment:
    """The options, by module, and those that several modules have."""
'''
_FRAGMENT = '''
    {name} = r"""
{options}"""
'''


def text(modules: Mapping[str, Mapping[str, Argument]]) -> str:
    """Return the file of all fragments."""
    found = {name: _own(module) for name, module in modules.items()}
    for name, options in SHARED.items():
        found[name] = {each: _entry(shared_argument(each, modules).spec, {}) for each in options}
    return _HEAD + "".join(
        _FRAGMENT.format(name=name.upper(), options=block({"options": options}))
        for name, options in found.items()
    )


def _own(module: Mapping[str, Argument]) -> dict[str, Any]:
    """Return the options that only this module has."""
    own = {argument.variable: f"O({option})" for option, argument in module.items()}
    elsewhere = {option for options in SHARED.values() for option in options}
    return {
        option: _entry(argument.spec, own)
        for option, argument in module.items()
        if option not in elsewhere
    }


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
