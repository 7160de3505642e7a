"""Cables and transceivers of ports, by mlxlink (MFT) or mstlink (mstflint). Reading needs root.

What a module has no sensor for is `N/A`, or 0 within limits of 0 to 0, as of a passive copper
cable; such a cable shows lanes without a signal (Rx LOS) on a link that is up. So only values with
limits of the module's own are judged.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.facts.errors import CouldNotTell, NotInstalled
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import END, whole
from rdmaprov.probe.session import Limits

# For a port that is up it answers within 2 s. A module that does not answer must end before the
# command does, else what the others said is lost with it.
LIMIT_S = int(0.75 * Limits().command_s)
_LIMITS = re.compile(r"(\S+) \[(-?[\d.]+)\.\.(-?[\d.]+)\]")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# A value as mlxlink colours it on a terminal.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BER = re.compile(r"(\d+(?:\.\d+)?)[eE]([+-]?\d{1,3})")


@dataclass(frozen=True)
class Sensor:
    """What a module measures, with its unit in the name, and the module's own alarm limits."""

    name: str
    values: tuple[float, ...]  # one, or one for each lane
    low: float
    high: float

    @property
    def is_within_limits(self) -> bool:
        """Return whether all values are."""
        return all(self.low <= value <= self.high for value in self.values)


@dataclass(frozen=True)
class LinkModule:
    """What the tool says of a port's link and module."""

    readings: tuple[Sensor, ...]
    part: str  # of the module; empty if it has none
    serial: str  # likewise
    advice: str
    # bit errors that were left after correction, per bit, since the counters were cleared; None if
    # the tool does not say
    error_ratio: float | None


def command(addresses: Sequence[str]) -> str:
    """Return what asks for all of a node's modules at once.

    Each line has its port in front and is one write, so that answers stay apart that come together.
    """
    parts = []
    for each in addresses:
        port = shlex.quote(each)
        asked = f"timeout {LIMIT_S} $tool -d {port} -m -c 2>&1; code=$?; echo; echo exit $code"
        line = f"printf '%s %s\\n' {port} \"$line\""
        parts.append(f"{{ {asked}; }} | while IFS= read -r line; do {line}; done &")
    find = "tool=$(command -v mlxlink || command -v mstlink) || echo no mlxlink; "
    return f'{find}[ -z "$tool" ] || {{ {" ".join(parts)} wait; }}; echo {END}'


def read(host: Host, addresses: Sequence[str], of: str) -> LinkModule:
    """Return the cable of one port, by its PCI address; all are asked at once.

    Raises:
        NotInstalled: there is no tool.
        CouldNotTell: it fails, or shows no module.
    """
    return parse(host.run(command(addresses)).stdout, of)


def parse(stdout: str, of: str) -> LinkModule:
    """Return what `command` printed of a port, as `read` does."""
    said = whole(stdout, "mlxlink")
    if said.startswith("no mlxlink\n"):
        raise NotInstalled("mlxlink: not installed")
    lines = [line[len(of) + 1 :] for line in said.splitlines() if line.startswith(f"{of} ")]
    code = lines.pop().removeprefix("exit ") if lines else ""
    text = "\n".join(lines)
    if code != "0":
        left = _COLOUR.sub("", text).strip().splitlines()
        why = "ran out of time" if code == "124" else left[-1] if left else "no output"
        raise CouldNotTell(f"mlxlink -d {of} -m -c: {why}; it requires root")
    return parse_cable(text)


def parse_cable(text: str) -> LinkModule:
    """Return what `mlxlink -m -c` printed; CouldNotTell if it is another program's output."""
    fields: dict[str, str] = {}
    for line in _COLOUR.sub("", text).splitlines():
        name, colon, value = line.partition(" :")
        if colon:
            fields[name.strip()] = value.strip()
    if "Recommendation" not in fields or "State" not in fields:
        raise CouldNotTell(f"mlxlink shows {text.strip()[:60]!r}, not a link")
    return LinkModule(
        tuple(_readings(fields)),
        _known(fields, "Vendor Part Number"),
        _known(fields, "Vendor Serial Number"),
        fields["Recommendation"],
        _ratio(fields.get("Effective Physical BER", "")),
    )


def _readings(fields: Mapping[str, str]) -> list[Sensor]:
    found = []
    for name, text in fields.items():
        limits = _LIMITS.fullmatch(text)
        if limits is None or limits[2] == limits[3]:
            continue
        values = limits[1].split(",")
        if not all(_NUMBER.fullmatch(value) for value in values):
            raise CouldNotTell(f"mlxlink: {name} is {text[:60]!r}, not numbers with limits")
        low, high = float(limits[2]), float(limits[3])
        found.append(Sensor(name, tuple(map(float, values)), low, high))
    return found


def _known(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name, "")
    return "" if value == "N/A" else value


def _ratio(text: str) -> float | None:
    """Return such as 15E-255, which is the tool's way to say none."""
    return float(text) if _BER.fullmatch(text) else None
