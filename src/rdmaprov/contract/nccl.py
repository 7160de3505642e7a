"""/etc/nccl.conf agrees with the fabric, and says only what NCCL understands."""

from __future__ import annotations

import csv
import difflib
import ipaddress
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rdmaprov.contract.rule import Finding, Rule, is_roce
from rdmaprov.inventory.model import Node

_ENV = "nccl_environment"
_SOURCE = "NCCL sources 2.12 to 2.30: src/, docs/userguide/source/env.rst"
_CONF = "NCCL src/misc/param.cc"
Version = tuple[int, int]
# Never existed, or no longer does: what to write. [NCCL's history]
_OBSOLETE = {
    "NCCL_SHARP_ENABLE": "NCCL_COLLNET_ENABLE: 1",
    "NCCL_IB_CUDA_SUPPORT": "NCCL_NET_GDR_LEVEL, or nothing: it was removed in 2.4",
    "NCCL_IB_GDR_LEVEL": "NCCL_NET_GDR_LEVEL",
    "NCCL_NCHUNKS_COARSE": "nothing: it has never existed",
    "NCCL_RINGS": "nothing: NCCL finds its rings",
    "NCCL_NRINGS": "NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NRINGS": "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NRINGS": "NCCL_MAX_NCHANNELS",
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING, in the job: it is torch's",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT, in the job: it is torch's",
}
# NCCL's variables that have a setting of their own here.
_OWN = {
    "NCCL_IB_HCA": "nccl_ib_hca",
    "NCCL_IB_TC": "nccl_ib_tc",
    "NCCL_IB_SL": "nccl_ib_sl",
    "NCCL_IB_GID_INDEX": "nccl_ib_gid_index",
    "NCCL_IB_ADDR_FAMILY": "nccl_ib_address_family",
    "NCCL_IB_ADDR_RANGE": "nccl_ib_address_range",
    "NCCL_SOCKET_IFNAME": "nccl_socket_ifname",
    "NCCL_CROSS_NIC": "nccl_cross_nic",
}
# Variables of NCCL's plugins, which it passes on.
_PLUGINS = ("NCCL_IBEXT_", "NCCL_PLUGIN_", "NCCL_UCX_", "NCCL_OFI_")
RDMA_NAME = re.compile(r"^[\^=]*(mlx[45]_\d+|bnxt_re\d+|irdma\d+|roce[px]\w+|ibp\w+)")


@cache
def known() -> dict[str, tuple[Version, Version]]:
    """Return NCCL's variables with the first and the last version that has them."""
    with (Path(__file__).parent / "nccl_variables.csv").open() as file:
        return {
            row["name"]: (_version(row["since"]) or (0, 0), _version(row["until"]) or (9999, 0))
            for row in csv.DictReader(file)
        }


def _version(text: str) -> Version | None:
    found = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)?", text)
    return (int(found[1]), int(found[2])) if found else None


def _node_version(node: Node) -> Version | None:
    return _version(node.get("nccl_version") or "")


def _versions(node: Node) -> Iterator[Finding]:
    version = node.get("nccl_version")
    if version is not None and _version(version) is None:
        yield Finding("nccl_version", f"'{version}' is not a version", "write such as '2.30.7'")


def _tc(node: Node) -> Iterator[Finding]:
    tc, dscp = node.get("nccl_ib_tc"), node.get("fabric_roce_dscp")
    if is_roce(node) and tc is not None and dscp is not None and tc >> 2 != dscp:
        message = f"{tc} is DSCP {tc >> 2}, and fabric_roce_dscp is {dscp}"
        yield Finding("nccl_ib_tc", message, f"write {dscp << 2 | 2}, or remove the line")


def _gid(node: Node) -> Iterator[Finding]:
    index, version = node.get("nccl_ib_gid_index"), _node_version(node)
    if is_roce(node) and index == -1 and version is not None and version < (2, 21):
        message = f"NCCL {version[0]}.{version[1]} cannot choose a GID; 2.21 and later can"
        remedy = "write the index of the rails' RoCE v2 GID, often 3"
        yield Finding("nccl_ib_gid_index", message, remedy, (), ("nccl_version",))


def _unknown(node: Node) -> Iterator[Finding]:
    version = _node_version(node)
    for name in map(str, node.get(_ENV) or {}):
        if name in _OWN:
            message, remedy = f"{name} has a setting of its own", f"write {_OWN[name]}"
        elif name in _OBSOLETE:
            message, remedy = f"NCCL does not know {name}", f"write {_OBSOLETE[name]}"
        elif not name.startswith("NCCL_") or name.startswith(_PLUGINS):
            continue
        elif name not in known():
            near = difflib.get_close_matches(name, known(), n=1)
            remedy = f"did you mean {near[0]}" if near else "remove it"
            message = f"NCCL does not know {name}, and ignores it without a word"
        elif version is not None and not known()[name][0] <= version <= known()[name][1]:
            message = f"NCCL {version[0]}.{version[1]} does not have {name}"
            remedy = "remove it, or correct nccl_version"
        else:
            continue
        yield Finding(_ENV, message, remedy, (name,))


def _format(node: Node) -> Iterator[Finding]:
    for name, value in (node.get(_ENV) or {}).items():
        if isinstance(value, (list, dict, bool)) or value is None:
            message, remedy = f"{name} is not a text or a number", "write NCCL's own text"
        elif re.search(r"[\n\"']|^\s|\s$", str(value)):
            message = f"{name}: nccl.conf takes quotes and outer spaces as part of the value"
            remedy = "write it without them"
        else:
            continue
        yield Finding(_ENV, message, remedy, (name,))


def _socket(node: Node) -> Iterator[Finding]:
    name = node.get("nccl_socket_ifname") or ""
    if any(RDMA_NAME.match(part) for part in name.split(",")):
        message = f"'{name}' is an RDMA device; NCCL wants network devices here"
        yield Finding("nccl_socket_ifname", message, "write such as =eth0, or bond0")


def _hca(node: Node) -> Iterator[Finding]:
    devices = node.get("nccl_ib_hca") or []
    for index, name in enumerate(devices):
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            message = f"'{name}' is not the name of one RDMA device"
            yield Finding("nccl_ib_hca", message, "write such as mlx5_0; = is added", (index,))
    if devices and node.rails and len(devices) != len(node.rails):
        message = f"{len(devices)} devices for {len(node.rails)} rails"
        yield Finding("nccl_ib_hca", message, "name one for each rail, or remove the line")


def _family(node: Node) -> Iterator[Finding]:
    family = node.get("nccl_ib_address_family")
    for rail in node.rails:
        if rail.address is not None and family not in (None, f"ipv{rail.address.version}"):
            message = f"{family}, and rail {rail.index} has {rail.address}"
            remedy = "write one family for all rails, or remove the line"
            yield Finding("nccl_ib_address_family", message, remedy, (), ("fabric_rails",))
            return


def _range(node: Node) -> Iterator[Finding]:
    text = node.get("nccl_ib_address_range")
    if not text:
        return
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        message = f"'{text}' is not a network"
        yield Finding("nccl_ib_address_range", message, "write such as 198.18.0.0/15")
        return
    for rail in node.rails:
        if rail.address is not None and rail.address.ip not in network:
            message = f"{text} does not hold rail {rail.index}'s {rail.address.ip}"
            yield Finding("nccl_ib_address_range", message, "write a wider network")
            return


RULES = (
    Rule("nccl.version", "The NCCL version is one.", _SOURCE, _versions),
    Rule("nccl.tc", "NCCL marks its data with the fabric's DSCP.",
         "NCCL src/transport/net_ib/connect.cc; RFC 2474", _tc),
    Rule("nccl.gid", "NCCL before 2.21 is told which GID to use.", _SOURCE, _gid),
    Rule("nccl.known", "NCCL's variables exist in the site's version.", _SOURCE, _unknown),
    Rule("nccl.format", "Values fit into nccl.conf, which has no quoting.", _CONF, _format),
    Rule("nccl.socket", "NCCL_SOCKET_IFNAME names network devices.", _SOURCE, _socket),
    Rule("nccl.hca", "NCCL_IB_HCA names one device for each rail, exactly.", _SOURCE, _hca),
    Rule("nccl.family", "The rails' addresses are of the family that NCCL looks for.",
         _SOURCE, _family),
    Rule("nccl.range", "The rails' addresses are in the range that NCCL looks in.",
         _SOURCE, _range),
)  # fmt: skip
