"""Which options modprobe gives a module at its next load, and which file says so.

Runs on the node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..machine import CommandFailed, Machine
from ..plan import NotYet

# A file hides those of its name in later directories; all are read in their names' order.
# [man modprobe.d.5]
DIRECTORIES = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)
COMMAND_LINE = "/proc/cmdline"


@dataclass(frozen=True)
class Option:
    """One parameter that a module is given when it is loaded."""

    module: str  # as the kernel names it
    parameter: str  # likewise
    value: str
    file: str


def name(written: str) -> str:
    """Return a module's or a parameter's name as the kernel spells it."""
    return written.replace("-", "_")


def options(machine: Machine, instead: dict[str, str] | None = None) -> list[Option]:
    """Return all options in the order in which a module gets them: the last one counts.

    Args:
        instead: by file, the text that it is going to have.
    """
    given = instead or {}
    found = []
    for path in _files(machine, given):
        text = given[path] if path in given else machine.read(path) or ""
        found += in_file(text, path)
    # modprobe passes the kernel command line on, after what the files say.
    # [kmod libkmod/libkmod-config.c: kmod_config_parse_kcmdline]
    for word in words(machine.read(COMMAND_LINE) or ""):
        module, dot, rest = word.partition(".")
        if dot and "=" in rest and "=" not in module:
            found.append(_option(module, rest, "the kernel command line"))
    return found


def effective(options: list[Option], module: str, parameter: str) -> Option | None:
    """Return the option that a module gets at its next load, None for none."""
    found = [each for each in options if (each.module, each.parameter) == (module, parameter)]
    return found[-1] if found else None


def info(machine: Machine, module: str, *options: str) -> str:
    """Return what modinfo prints of the running kernel's module; raise NotYet if there is none."""
    try:
        return machine.run(["modinfo", *options, module])
    except CommandFailed as error:
        if "not found" not in error.output:
            raise
        release = machine.value("/proc/sys/kernel/osrelease")
        raise NotYet(f"{module}: kernel {release} has no such module (modinfo {module})") from error


def boot_obstacle(machine: Machine, module: str) -> str:
    """Return what keeps a module from being loaded at boot, and where; empty if nothing does.

    systemd-modules-load leaves out what is blacklisted, which modprobe by name does not.
    [systemd src/shared/module-util.c: module_load_and_warn]
    """
    for path in _files(machine, {}):
        for text in _lines(machine.read(path) or ""):
            if _denies(words(text), module):
                return f"{path} has '{text.strip()}'"
    for word in words(machine.read(COMMAND_LINE) or ""):
        key, _, value = word.partition("=")
        if key in ("modprobe.blacklist", "module_blacklist") and module in map(
            name, value.split(",")
        ):
            return f"the kernel command line has '{word}'"
    return ""


def line(module: str, values: dict[str, str]) -> str:
    """Return the line of modprobe.d that gives a module these values."""
    return f"options {module} {' '.join(f'{key}={_quote(values[key])}' for key in sorted(values))}"


def words(text: str) -> list[str]:
    """Return a command line's words: blanks end one, but not between double quotes.

    [Linux lib/cmdline.c: next_arg]
    """
    found, word, quoted = [], "", False
    for letter in text + " ":
        if letter == '"':
            quoted = not quoted
        elif letter.isspace() and not quoted:
            found += [word] if word else []
            word = ""
        else:
            word += letter
    return found


def in_file(text: str, path: str) -> list[Option]:
    """Return the options in a file's text."""
    found = []
    for line in _lines(text):
        keyword, *given = words(line) or [""]
        if keyword == "options" and given:
            found += [_option(given[0], each, path) for each in given[1:]]
    return found


def _denies(given: list[str], module: str) -> bool:
    """Return whether a line of modprobe.d, in words, keeps a module out at boot."""
    if len(given) < 2 or name(given[1]) != module:
        return False
    command = given[2].rpartition("/")[2] if len(given) > 2 else ""
    return given[0] == "blacklist" or (given[0] == "install" and command in ("true", "false"))


def _lines(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


def _files(machine: Machine, instead: dict[str, str]) -> list[str]:
    paths: dict[str, str] = {}
    for directory in DIRECTORIES:
        here = machine.names(directory)
        here += [path.rpartition("/")[2] for path in instead if path.startswith(directory + "/")]
        for each in here:
            if each.endswith(".conf"):
                paths.setdefault(each, f"{directory}/{each}")
    return [paths[each] for each in sorted(paths)]


def _option(module: str, given: str, file: str) -> Option:
    parameter, equals, value = given.partition("=")
    # A parameter without a value is a switch that is on.
    return Option(name(module), name(parameter), value if equals else "1", file)


def _quote(value: str) -> str:
    return f'"{value}"' if any(letter.isspace() for letter in value) or not value else value


KALLSYMS = "/proc/kallsyms"


def has_symbol(machine: Machine, name: str) -> bool | None:
    """Return whether the kernel or a module has a function; None if they do not tell.

    Raises:
        NodeError: the list is there and cannot be read.
    """

    def look() -> bool | None:
        text = machine.read(KALLSYMS)
        return bool(re.search(rf" {name}\b", text)) if text else None

    # The list has some 10 MB: a record gets the answer alone.
    found: bool | None = machine.ask(f"{KALLSYMS} has {name}", look)
    return found
