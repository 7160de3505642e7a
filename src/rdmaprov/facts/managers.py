"""Subnet managers on a node: opensm's configuration, its process, what the subnet says of it."""

import re
from dataclasses import dataclass

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import END, Files, output, whole

# Of the units of opensm's packages.
PACKAGED = ("opensm.service", "opensmd.service")
_SMINFO = re.compile(
    r"sm lid \d{1,5} sm guid 0x[0-9a-f]{1,16}, activity count \d+ priority (\d{1,2}) "
    r"state \d SMINFO_([A-Z]+)"
)
_ENGINE = re.compile(r"(\S+) tables configured on all switches")
_MARK = "RDMAPROV_CONFIGURATION"


@dataclass(frozen=True)
class ManagerState:
    """What a subnet manager answers; `state`: MASTER, STANDBY, DISCOVERING or NOTACTIVE."""

    priority: int
    state: str


def unit(rail: int) -> str:
    """Return the unit of the manager of a rail's subnet."""
    return f"rdmaprov-opensm-rail{rail}.service"


def settings(text: str) -> dict[str, str]:
    """Return what a file of opensm's sets.

    >>> settings("# x\\nguid 0x1\\nqos TRUE\\n")
    {'guid': '0x1', 'qos': 'TRUE'}
    """
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pairs = (line.partition(" ")[::2] for line in lines if line)
    return {name: value.strip() for name, value in pairs}


def lines(text: str) -> list[str]:
    """Return the lines of a file without comments, each with single blanks."""
    found = (" ".join(line.partition("#")[0].split()) for line in text.splitlines())
    return [line for line in found if line]


def wanted_digest(files: Files, path: str) -> str | None:
    """Return the mark of the configuration that a unit starts with; None without one."""
    found = re.search(rf"^Environment={_MARK}=([0-9a-f]+)$", files.get(path) or "", re.M)
    return found[1] if found else None


def running_digest(host: Host, name: str) -> str | None:
    """Return the mark of the configuration that a unit's process was started with."""
    process = f"$(systemctl show --property=MainPID --value -- {name})"
    command = f"tr '\\0' '\\n' < /proc/{process}/environ | LC_ALL=C grep -a '^{_MARK}='; echo {END}"
    said = host.run(command).stdout
    found = re.search(rf"{_MARK}=([0-9a-f]+)", whole(said, f"the environment of {name}"))
    return found[1] if found else None


def state(host: Host, device: str) -> ManagerState | None:
    """Return what the manager of a device's port answers; None if none does."""
    lid = f"$(cat /sys/class/infiniband/{device}/ports/1/lid)"
    result = host.run(f"sminfo -C {device} -P 1 {lid} 2>&1; echo {END}")
    said = whole(result.stdout, "sminfo")
    found = _SMINFO.search(said)
    if found is not None:
        return ManagerState(int(found[1]), found[2])
    if re.search(r"failed: query|bad status|Invalid SM lid|timed out", said):
        return None
    raise CouldNotTell(f"sminfo -C {device}: {said.strip()[:160] or 'it printed nothing'}")


def engine(host: Host, rail: int) -> str | None:
    """Return the routing engine that wrote the tables last; None if the log names none."""
    path = f"/var/log/rdmaprov-opensm-rail{rail}/opensm.log"
    found = _ENGINE.findall(output(host, f"grep -a 'tables configured' {path} | tail -n 1"))
    return found[-1] if found else None
