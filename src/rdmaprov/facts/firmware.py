"""Firmware settings of a NIC, by mstconfig (mstflint) or mlxconfig (MFT). Reading needs root."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import run_program

_COLUMNS = ("Default", "Current", "Next Boot", "New")
_ROW = re.compile(r"[* ]?(?:RO)?\s+([A-Z_]\w*(?:\[[\d.]+\])?)\s+(\S.*)")


@dataclass(frozen=True)
class FirmwareSetting:
    """One setting, its values as the tool shows them, such as ETH(2)."""

    current: str  # what is in force; empty if the tool does not say
    next_boot: str  # what the firmware reads when it starts


def command(address: str) -> str:
    """Return what to type to see a NIC's settings."""
    return f"mstconfig -d {address} -e query"


def read(host: Host, address: str, names: tuple[str, ...]) -> Mapping[str, FirmwareSetting]:
    """Return settings of a NIC by name.

    Raises:
        CouldNotTell: no tool is there, it fails, or the NIC has no such setting.
    """
    tool = "$(command -v mstconfig || echo mlxconfig)"
    done = run_program(host, f"{tool} -d {shlex.quote(address)} -e query")
    if done.rc != 0:
        raise CouldNotTell(f"{command(address)}: {done.last}; it may require root")
    found = parse(done.stdout)
    for name in names:
        if name not in found:
            raise CouldNotTell(f"{address}: its firmware shows no {name} ({command(address)})")
    return found


@remember
def parse(text: str) -> Mapping[str, FirmwareSetting]:
    """Return the settings in a query's output.

    The header tells which columns there are; they differ between versions and options.

    Raises:
        CouldNotTell: there is no such header, so it is not a query's output.
    """
    columns: list[str] = []
    found: dict[str, FirmwareSetting] = {}
    for line in text.splitlines():
        if line.startswith("Configurations:"):
            columns = re.findall("|".join(_COLUMNS), line)
            continue
        row = _ROW.fullmatch(line.rstrip()) if columns else None
        values = row[2].split() if row else []
        if row is None or len(values) != len(columns):
            continue
        of = dict(zip(columns, values, strict=True))
        found[row[1]] = FirmwareSetting(of.get("Current", ""), of.get("Next Boot", ""))
    if not columns:
        raise CouldNotTell(f"the query of firmware settings shows no columns: {text[:60]!r}")
    return found


def is_value(shown: str, wanted: object) -> bool:
    """Return whether a shown value, such as True(1), is what a site wrote: true, 1 or "True"."""
    text = str(int(wanted)) if isinstance(wanted, bool) else str(wanted).strip().lower()
    text = {"true": "1", "false": "0"}.get(text, text)
    if re.fullmatch(r"0x[0-9a-f]+", text):
        text = str(int(text, 16))
    named = re.fullmatch(r"(.*)\((\d+)\)", shown.lower())
    return text in (named.groups() if named else (shown.lower(),))
