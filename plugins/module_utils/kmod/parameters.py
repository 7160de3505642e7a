"""A kernel module's parameters: which ones it has, of which type, and what is in force.

Runs on the node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..machine import Machine, NodeError
from ..plan import Refused
from . import modprobe

# By type, as modinfo names it: the smallest and the largest number. A module that is given
# another does not load. [Linux include/linux/moduleparam.h, kernel/params.c]
_RANGES = {
    "byte": (0, (1 << 8) - 1),
    "hexint": (0, (1 << 32) - 1),
    "short": (-(1 << 15), (1 << 15) - 1),
    "ushort": (0, (1 << 16) - 1),
    "int": (-(1 << 31), (1 << 31) - 1),
    "uint": (0, (1 << 32) - 1),
    "long": (-(1 << 63), (1 << 63) - 1),
    "ulong": (0, (1 << 64) - 1),
    "ullong": (0, (1 << 64) - 1),
}
_TRUE = ("1", "y", "yes", "true", "on")
_FALSE = ("0", "n", "no", "false", "off")
_NVIDIA = "/proc/driver/nvidia/params"


@dataclass(frozen=True)
class Parameter:
    """A parameter of an installed module, and what the site wants it to be.

    Args:
        module: as the kernel names it.
        name: likewise.
        kind: its type as modinfo names it; empty if it names none.
        wanted: the value, as modprobe is to give it.
    """

    module: str
    name: str
    kind: str
    wanted: str

    def is_met_by(self, value: str) -> bool:
        """Return whether a value means what is wanted: Y and 1, 0x10 and 16 are the same."""
        try:
            return _meaning(self.kind, value) == _meaning(self.kind, self.wanted)
        except ValueError:
            return False


@dataclass(frozen=True)
class Running:
    """What a loaded module's parameter is.

    Args:
        writable: whether it can be set while the module is loaded.
    """

    value: str
    path: str
    writable: bool


def site_parameters(machine: Machine, given: dict[str, Any]) -> list[Parameter]:
    """Return the parameters that a site wants, sorted, by the kernel's spelling.

    Raises:
        NotYet: a module is not installed.
        Refused: the installed module lacks a parameter, or its type has no such value.
    """
    values: dict[str, dict[str, str]] = {}
    for module, parameters in given.items():
        if not isinstance(parameters, dict):
            raise Refused(
                f"{module} has no parameters with values: write {module}: {{NAME: VALUE}}"
            )
        for parameter, value in parameters.items():
            of_module = values.setdefault(modprobe.name(module), {})
            text = _text(module, parameter, value)
            if of_module.setdefault(modprobe.name(parameter), text) != text:
                raise Refused(f"{module} {parameter} is given twice, with two values: remove one")
    return [
        parameter
        for module in sorted(values)
        for parameter in _of_module(machine, module, values[module])
    ]


def is_loaded(machine: Machine, module: str) -> bool:
    """Return whether a module that is not built into the kernel is loaded."""
    return machine.exists(f"/sys/module/{module}/initstate")


def _is_built_in(machine: Machine, module: str) -> bool:
    return machine.exists("/sys/module/" + module) and not is_loaded(machine, module)


def running(machine: Machine, parameter: Parameter) -> Running | None:
    """Return what a parameter is now, None if its module is not loaded.

    Raises:
        NodeError: the module is loaded and nothing shows the value.
    """
    if not is_loaded(machine, parameter.module):
        return None
    path = f"/sys/module/{parameter.module}/parameters/{parameter.name}"
    value = machine.value(path)
    if value is not None:
        return Running(value, path, bool((machine.mode(path) or 0) & 0o200))
    # nvidia's parameters have no file in sysfs, and other names here: without NVreg_.
    # [NVIDIA open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c]
    if parameter.module == "nvidia" and parameter.name.startswith("NVreg_"):
        for line in (machine.read(_NVIDIA) or "").splitlines():
            name, colon, value = line.partition(":")
            if colon and "NVreg_" + name.strip() == parameter.name:
                return Running(value.strip().strip('"'), _NVIDIA, writable=False)
        path += f" and {_NVIDIA}"
    raise NodeError(
        f"{parameter.module} {parameter.name}: its current value is unknown, because the module is "
        f"loaded and {path} does not show it; remove it from mlx5_module_parameters"
    )


def valid_parameters(machine: Machine, module: str) -> dict[str, str]:
    """Return the parameters of the module for the running kernel, with their types.

    Raises:
        NotYet: there is no such module.
    """
    text = modprobe.info(machine, module, "-p")
    found: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        start = re.match(r"(\w+):", line)
        last = modprobe.name(start.group(1)) if start else last
        kind = re.search(r"\(((?:array of )?[a-z]+)\)$", line)
        if last:
            found[last] = kind.group(1) if kind else found.get(last, "")
    return found


def _of_module(machine: Machine, module: str, values: dict[str, str]) -> list[Parameter]:
    has = valid_parameters(machine, module)
    if not machine.is_image and _is_built_in(machine, module):
        raise Refused(
            f"{module} is built into the kernel, which reads its parameters from its command "
            f"line: write {module}.NAME=VALUE there, and remove it from mlx5_module_parameters"
        )
    found = []
    for name in sorted(values):
        if name not in has:
            raise Refused(
                "{0} has no parameter {1}, and the kernel would ignore it; valid are {2} "
                "(modinfo -p {0})".format(module, name, ", ".join(sorted(has)) or "none")
            )
        found.append(Parameter(module, name, has[name], values[name]))
        try:
            _meaning(has[name], values[name])
        except ValueError as error:
            raise Refused(
                f"{module} {name}: '{values[name]}' is not a {has[name]}, and the module would not "
                f"load with it (modinfo -p {module})"
            ) from error
    return found


def _text(module: str, parameter: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, (int, str)) or re.search(r'[\n\r"#]', str(value)):
        raise Refused(f"{module} {parameter}: {value!r} does not fit on a line of modprobe.d")
    return str(value)


def _meaning(kind: str, value: str) -> object:
    """Return what a value means, the same for all ways to write it."""
    if kind.startswith("array of "):
        return [_meaning(kind[len("array of ") :], each) for each in value.split(",")]
    if kind in ("bool", "invbool", "bint"):
        return _switch(value)
    if kind in _RANGES:
        number = _number(value)
        smallest, largest = _RANGES[kind]
        if not smallest <= number <= largest:
            raise ValueError(value)
        return number
    if kind in ("charp", "string"):
        return "" if value == "(null)" else value
    try:
        return _number(value)
    except ValueError:
        return value


def _switch(value: str) -> bool:
    if value.lower() not in _TRUE + _FALSE:
        raise ValueError(value)
    return value.lower() in _TRUE


def _number(value: str) -> int:
    """Return a number as the kernel reads it: 0x10 is 16, and 010 is 8."""
    octal = re.fullmatch(r"-?0[0-7]+", value.strip())
    return int(value, 8 if octal else 0)
