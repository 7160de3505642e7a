"""Units of systemd, as `systemctl show` has them."""

import shlex
from collections.abc import Mapping

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import END, output, whole

_LINKS = (
    "for link in /etc/systemd/system/*.wants/* /etc/systemd/system/*.requires/*"
    " /usr/lib/systemd/system/*.wants/* /usr/lib/systemd/system/*.requires/*;"
    f' do [ ! -e "$link" ] || echo "${{link##*/}}"; done; echo {END}'
)
PROPERTIES = (
    "Id,Names,LoadState,ActiveState,Result,UnitFileState,NeedDaemonReload,MainPID,"
    "LimitMEMLOCK,LimitMEMLOCKSoft,ExecStart,DropInPaths"
)


def show(host: Host, *names: str) -> Mapping[str, Mapping[str, str]]:
    """Return the properties of units, by each name that was asked for."""
    words = " ".join(shlex.quote(name) for name in names)
    return parse(
        output(host, f"systemctl show --no-pager --property={PROPERTIES} -- {words}"), names
    )


def state_after_reboot(host: Host, name: str) -> str:
    """Return "enabled" for a unit that a boot starts, else what it is.

    A boot goes by the links on the disk; systemd remembers what they were when it last read them.
    """
    known = show(host, name)[name].get("UnitFileState") or "absent"
    if known not in ("enabled", "disabled"):
        return known
    shown = whole(host.run(_LINKS).stdout, "reading links of units")
    if name in shown.splitlines():
        return "enabled"
    return known if known == "disabled" else "enabled in systemd's memory, not linked on the disk"


@remember
def parse(text: str, names: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """Return what `systemctl show` printed: blocks of NAME=VALUE in the order of the names."""
    blocks = [
        dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        for block in text.strip().split("\n\n")
    ]
    if len(blocks) != len(names) or not all("LoadState" in each for each in blocks):
        raise CouldNotTell(f"systemctl show: {len(blocks)} answers for {len(names)} units")
    return dict(zip(names, blocks, strict=True))


def escape(text: str) -> str:
    """Return a text as it is in the name of a unit, as `systemd-escape` does."""
    body = "".join(
        each if each.isascii() and (each.isalnum() or each in "_.:") else _code(each)
        for each in text.replace("/", "\0")
    ).replace("\\x00", "-")
    return f"\\x2e{body[1:]}" if body.startswith(".") else body


def _code(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode())
