"""Kernel settings: what they are, and what a boot sets. Source: man sysctl.d(5)."""

import re

from rdmaprov.facts.text import Files

DIRECTORIES = (
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
)
PATHS = tuple(f"{directory}/*.conf" for directory in DIRECTORIES)


def path_of(name: str) -> str:
    """Return the kernel's file of a setting, such as /proc/sys/vm/swappiness.

    The first of "." and "/" separates the parts; the other is then a dot within one.
    """
    first = re.search(r"[./]", name)
    swapped = name.translate(str.maketrans("./", "/.")) if first and first[0] == "." else name
    return "/proc/sys/" + swapped


def at_boot(files: Files) -> dict[str, tuple[str, str]]:
    """Return by the kernel's file what systemd-sysctl sets at boot, and the file that says so.

    Files go by name, wherever they are; one hides those of its name in later directories; the
    last line counts; one with a pattern never beats one that names the setting.
    """
    chosen = files.by_name(DIRECTORIES)
    found: dict[str, tuple[str, str]] = {}
    for name in sorted(chosen):
        for line in files.must(chosen[name]).splitlines():
            key, equals, value = line.strip().partition("=")
            key = key.strip().lstrip("-")
            if equals and key and key[0] not in "#;" and not re.search(r"[*?\[]", key):
                found[path_of(key)] = (value.strip(), chosen[name])
    return found
