"""What an initramfs gives the modules that it carries.

A module that an initramfs loads never sees a newer file in /etc/modprobe.d.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.facts import kernel_modules
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.kernel_modules import Configuration
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import END, whole

_CONFIGURATION = re.compile(r"\S*?/?((?:etc|run|usr/lib|lib)/modprobe\.d/[^/\0]+\.conf)")


@dataclass(frozen=True)
class Image:
    """An initramfs; `modules`: those of the modules asked for that it carries."""

    modules: frozenset[str]
    configuration: Configuration


def read(host: Host, modules: Sequence[str]) -> Mapping[str, Image]:
    """Return by path each initramfs that a boot may take.

    It is unpacked into memory, where nothing of it is left; only where it carries one of the
    modules, for that takes seconds.
    """
    body = whole(host.run(command(modules)).stdout, "reading the initramfs")
    return parse(body)


def command(modules: Sequence[str]) -> str:
    """Return the command that prints modules and modprobe.d of each initramfs."""
    names = "|".join(re.escape(name).replace("_", "[-_]") for name in modules)
    pattern = shlex.quote(rf"/({names})\.ko(\.[a-z0-9]+)?$")
    return (
        "for i in /boot/initrd.img-* /boot/initramfs-*.img; do "
        '[ -e "$i" ] || continue; echo "== $i"; '
        "if command -v lsinitramfs > /dev/null; then "
        f'lsinitramfs "$i" 2>&1 | grep -aE {pattern} || continue; '
        'd=$(mktemp -d -p /dev/shm) && unmkinitramfs "$i" "$d" && '
        "find \"$d\" -path '*/modprobe.d/*.conf' -exec grep -aHZ '' {} +; rm -rf \"$d\"; "
        "elif command -v lsinitrd > /dev/null; then "
        f'lsinitrd "$i" 2>&1 | grep -aoE {pattern} || continue; '
        'lsinitrd -f "etc/modprobe.d/*.conf" "$i" | sed "s|^|etc/modprobe.d/all.conf@|"; '
        'else echo "no program"; fi; '
        f"done; echo {END}"
    )


@remember
def parse(body: str) -> Mapping[str, Image]:
    """Return the images in what `command` printed."""
    parts = re.split(r"(?m)^== (\S+)\n", body)
    return {path: _image(text, path) for path, text in zip(parts[1::2], parts[2::2], strict=True)}


def _image(text: str, path: str) -> Image:
    modules: set[str] = set()
    files: dict[str, str] = {}
    for line in text.splitlines():
        name, mark, value = line.replace("@", "\0", 1).partition("\0")
        module = re.search(r"/([^/]+)\.ko(?:\.[a-z0-9]+)?$", line)
        found = _CONFIGURATION.fullmatch(name)
        if mark and found:
            files[found[1]] = files.get(found[1], "") + value + "\n"
        elif module:
            modules.add(module[1].replace("-", "_"))
        else:
            raise CouldNotTell(f"{path}: unexpected content: {line[:80]}")
    lines = [
        line for name in sorted(files) for line in kernel_modules.parse_text(files[name], name)
    ]
    return Image(frozenset(modules), Configuration(tuple(lines)))
