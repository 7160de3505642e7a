"""What the next boot gives the kernel, and what the running one was given.

Sources: GRUB manual, "linux" and "menuentry"; the UAPI group's Boot Loader Specification.
"""

import re
from dataclasses import dataclass

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import Files, read_files

GRUB = ("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg")
GRUBENV = ("/boot/grub2/grubenv", "/boot/grub/grubenv")
BLS = "/boot/loader/entries/*.conf"
RUNNING = "/proc/cmdline"
BOOT_ID = "/proc/sys/kernel/random/boot_id"  # random(4): another one after each boot
_MENUENTRY = re.compile(r"(?m)^\s*menuentry\s+(.*)$")
_LINUX = re.compile(r"(?m)^\s*linux(?:16|efi)?\s+(\S+)[ \t]*(.*)$")


def uptime_s(host: Host) -> int:
    """Return for how many seconds the node has run."""
    text = read_files(host, "/proc/uptime").must("/proc/uptime")
    if not (seconds := text.partition(".")[0]).isdecimal():
        raise CouldNotTell(f"/proc/uptime shows {text!r}")
    return int(seconds)


@dataclass(frozen=True)
class Entry:
    """A kernel that a boot may start, with its arguments and the file that says so."""

    kernel: str
    words: tuple[str, ...]
    file: str

    def arguments(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the arguments with these names, as they are written, in their order."""
        return tuple(word for word in self.words if word.partition("=")[0] in names)


@dataclass(frozen=True)
class CommandLine:
    """The arguments of the running kernel, and of those that a boot may start."""

    running: Entry
    entries: tuple[Entry, ...]


def read(host: Host) -> CommandLine:
    """Return the kernel's command lines. Recovery entries, which start without, are left out."""
    return parse(read_files(host, RUNNING, *GRUB, *GRUBENV, BLS))


def parse(files: Files) -> CommandLine:
    """Return the command lines in these files, as `read` does."""
    running = Entry("", _words(files.must(RUNNING)), RUNNING)
    entries = [*_bls(files)] or [*_grub(files)]
    if not entries:
        raise CouldNotTell(
            f"no kernel to start in {', '.join(GRUB)} or {BLS}; "
            "reading their directories may require root"
        )
    return CommandLine(running, tuple(entries))


def _bls(files: Files) -> list[Entry]:
    variables = _grubenv(files)
    found = []
    for match, text in files.matching(r"/boot/loader/entries/.+\.conf"):
        keys = dict(line.partition(" ")[::2] for line in text.splitlines() if " " in line)
        options = re.sub(
            r"\$(\w+)", lambda name: variables.get(name[1], ""), keys.get("options", "")
        )
        if "rescue" not in match[0] and "linux" in keys:
            found.append(Entry(keys["linux"].strip(), _words(options), match[0]))
    return found


def _grubenv(files: Files) -> dict[str, str]:
    for path in GRUBENV:
        text = files.get(path)
        if text:
            lines = (line.partition("=") for line in text.splitlines() if "=" in line)
            return {name: value for name, _, value in lines}
    return {}


def _grub(files: Files) -> list[Entry]:
    found = []
    for path in GRUB:
        text = files.get(path) or ""
        starts = list(_MENUENTRY.finditer(text))
        for index, start in enumerate(starts):
            end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
            linux = _LINUX.search(text, start.end(), end)
            if linux and "recovery" not in start[1]:
                found.append(Entry(linux[1], _words(linux[2]), path))
    return found


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())
