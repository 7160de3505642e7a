"""The catalogue of catalogue.yml: what an Xid or another line means, and asks for."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

IGNORE, RESET, REBOOT, HARDWARE, UNKNOWN = "ignore", "reset", "reboot", "hardware", "unknown"
CLEAR, SEVERITY, RECOVERY = "clear", "severity", "recovery"
NOTE = "; after a repair without a reboot: echo rdmaprov: {} was repaired > /dev/kmsg"
REMEDIES = {
    RESET: "with no job on the node, nvidia-smi -r{1}, or reboot; replace {0} if this returns{2}",
    REBOOT: "reboot the node; replace {0} if this comes again",
    HARDWARE: "look at {0}: its seat, cable and cooling; replace it{2}",
    UNKNOWN: "look it up in NVIDIA's Xid catalogue",
}
HANDS = (RESET, REBOOT, HARDWARE)  # what needs a hand
_PCI = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2,4}:[0-9a-fA-F]{2}(?:\.[0-7])?"
_PARTS = {
    "{pci}": rf"(?P<device>{_PCI})",
    "{nvrm}": r"NVRM:? (?:GPU\d+ )?",  # before what one of its functions says
    "{gsp}": r"(?:InitRm|Boot|Reset|Establish|Wait|Execute|Extract|FmcReport|Check|LogRpc)",
    "{failed}": r"(?:[Ff]ail|FAIL|[Tt]ime(?:d |)out|annot|[Ee]rror|nable to|exceed|no(?:t f| i))",
    "{slot}": r"(?:pciehp )?{port}: ?(?:pciehp|pcie\d+): ",
    "{port}": rf"(?:[\w-]+ )?(?P<device>{_PCI})",
    "{aer}": r"(?:AER: )?(?:Multiple |(?:PCIe|CXL) Bus Error: severity=)?",
    "{from}": rf"(?:,|$| error(?: message)?(?: received)?(?: from)?:? ?(?P<device2>{_PCI})?)",
    "{mlx5}": rf"mlx5_core (?P<device>{_PCI})(?: \S+)?: "
    rf"(?:(?:{_PCI}:)?\w+:\d+:? ?(?:\(pid (?P<pid>\d+)\): ?)?)?",
    "{mlx5no}": r"(?:mlx5_core: )?(?:(?:mlx5|probe)_\w+:\d+:\(pid \d+\): )?",  # of old drivers
    "{mlx4}": rf"mlx4_core (?P<device>{_PCI})(?: \S+)?: ",
    "{mce}": r"(?:EDAC \w+ MC\d+: |mce: |MCE: |core: )?(?:\[Hardware Error\]: )?",
    "{uncorrected}": r"Bank \d+: (?:0x)?[2367abef][0-9a-f]{15}",  # bit 61 of MCi_STATUS
    "{decoded}": r"(?:CPU:\d+\s{1,3})?(?:\(\S+\) )?MC\d+_STATUS\[",  # edac_mce_amd
    "{process}": r"process (?P<pid>\d+)(?:(?:,.*)? \((?P<program>.+?)\))?",
    "{task}": r"(?P<program>.+?)(?::(?P<pid>\d+))?",
    "{limit}": r"[^()]{1,60}(?:\(capable of [^()]{1,60}\))?",
    "{driver}": rf"(?:[\w-]+ (?:(?P<device>{_PCI})|[\w.:-]*\w) )",  # and its device, PCI or not
    "{member}": r"(?P<device>[\w.@-]+)",
    "{member2}": r"(?P<device2>[\w.@-]+)",
    "{netdev}": r"(?P<device2>[\w.@-]+):? (?:NIC )?",
}


@dataclass(frozen=True)
class Meaning:
    """What a line means."""

    kind: str
    # one of the catalogue's; `clear`; or where the line says it: `severity`, `recovery`
    action: str
    means: str
    is_linked: bool = False  # whether the driver changes the GPU's recovery action with it
    clears: tuple[str, ...] = ()  # how the kinds begin that a `clear` ends

    @property
    def finding(self) -> str:
        """Return the kind of its finding."""
        return "gpu.xid" if self.kind.startswith(("xid-", "sxid-", "gpu-")) else "node.fault"


@cache
def table() -> dict[str, Any]:
    """Return the catalogue as it is written."""
    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("catalogue.yml").read_text())
    return found


@cache
def xids() -> dict[int, Meaning]:
    """Return the meanings of the Xids that have one."""
    return {
        int(code.rstrip("+")): Meaning(f"xid-{code.rstrip('+')}", action, means, code[-1] == "+")
        for action, rows in table()["xids"].items()
        for codes, means in rows.items()
        for code in str(codes).split()
    }


@cache
def rows() -> tuple[tuple[re.Pattern[str], Meaning], ...]:
    """Return what the other lines mean, by the beginning of their messages."""
    found = []
    for kind, action, means, pattern in table()["lines"]:
        for part, instead in _PARTS.items():
            pattern = pattern.replace(part, instead)
        action, *clears = action.split()
        found.append((re.compile(pattern), Meaning(kind, action, means, clears=tuple(clears))))
    return tuple(found)
