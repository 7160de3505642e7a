"""Congestion control of a port: ECN, CNPs, DCQCN.

The vendor's driver has it in sysfs, with a switch for each priority. Linux's own has it in
debugfs, for root, without one (drivers/infiniband/hw/mlx5/cong.c).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rdmaprov.facts.devices import NET
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import Files, read_files

_ENDS = ("roce_np", "roce_rp")
# Parameters that the vendor's driver calls otherwise than Linux's cc_params.
_VENDORS = {
    "rp_clamp_tgt_rate": "clamp_tgt_rate",
    "rp_clamp_tgt_rate_ati": "clamp_tgt_rate_after_time_inc",
    "rp_rate_to_set_on_first_cnp": "rate_to_set_on_first_cnp",
    "rp_dce_tcp_g": "dce_tcp_g",
    "rp_dce_tcp_rtt": "dce_tcp_rtt",
    "rp_rate_reduce_monitor_period": "rate_reduce_monitor_period",
    "rp_initial_alpha_value": "initial_alpha_value",
    "np_min_time_between_cnps": "min_time_between_cnps",
}


@dataclass(frozen=True)
class Congestion:
    """A port's congestion control."""

    directory: str
    # by end, whether it is on for each of eight priorities; None if nothing shows it
    ecn: Mapping[str, tuple[bool, ...]] | None
    cnp_dscp: int
    cnp_priority: int | None
    values: Mapping[str, int]

    def parameter(self, name: str) -> int | None:
        """Return a parameter by its name in the kernel's cc_params, None if it is not shown."""
        vendors = _VENDORS.get(name, re.sub(r"^rp_", "rpg_", name))
        return self.values.get(name, self.values.get(vendors))


def read(host: Host, netdev: str, pci: str) -> Congestion | None:
    """Return a port's congestion control, None if no driver shows it."""
    vendors, kernels = f"{NET}/{netdev}/ecn", f"/sys/kernel/debug/mlx5/{pci}/cc_params"
    files = read_files(
        host,
        *(f"{vendors}/{end}/enable/*" for end in _ENDS),
        *(f"{vendors}/{end}/*[a-z]_[a-z]*" for end in _ENDS),
        *([f"{kernels}/*"] if pci else []),
    )
    return parse(files, vendors, kernels)


def parse(files: Files, vendors: str, kernels: str) -> Congestion | None:
    """Return the congestion control in these files, as `read` does."""
    for directory in (vendors, kernels):
        values = {
            match[1]: int(text)
            for match, text in files.matching(re.escape(directory) + r"/(?:roce_[nr]p/)?([^/]+)")
            if re.fullmatch(r"\d+", text)
        }
        if values:
            return _of(files, directory, values, directory == vendors)
    for path in files.reasons:
        files.get(path)  # debugfs is closed to who is not root
    return None


def _of(files: Files, directory: str, values: dict[str, int], vendors: bool) -> Congestion:
    dscp = "cnp_dscp" if vendors else "np_cnp_dscp"
    priority = "cnp_802p_prio" if vendors else "np_cnp_prio"
    if dscp not in values:
        raise CouldNotTell(f"{directory}: there is no {dscp}")
    # Mode 0 is the one in which np_cnp_prio is the priority of all notifications.
    unset = not vendors and values.get("np_cnp_prio_mode", 0) != 0
    return Congestion(
        directory,
        {end: _flags(files, f"{directory}/{end}/enable") for end in _ENDS} if vendors else None,
        values[dscp],
        None if unset else values.get(priority),
        values,
    )


def _flags(files: Files, directory: str) -> tuple[bool, ...]:
    texts = [files.must(f"{directory}/{priority}") for priority in range(8)]
    if any(text not in ("0", "1") for text in texts):
        raise CouldNotTell(f"{directory} shows {texts}, not eight switches")
    return tuple(text == "1" for text in texts)
