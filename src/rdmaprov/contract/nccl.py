"""/etc/nccl.conf agrees with the fabric and sets only variables that NCCL knows."""

import csv
import difflib
import ipaddress
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rdmaprov.contract.rule import Rule, Violation, is_roce
from rdmaprov.inventory import schema
from rdmaprov.inventory.model import Node

_ENV = "nccl_environment"
_SOURCE = "NCCL sources 2.12 to 2.30: src/, docs/userguide/source/env.rst"
_CONF = "NCCL src/misc/param.cc"
_NAME = re.compile(r"\bNCCL_[A-Z]\w*")
Version = tuple[int, int]
# Variables that never existed or were removed → what to write. [NCCL's history]
_OBSOLETE = {
    "NCCL_SHARP_ENABLE": "write NCCL_COLLNET_ENABLE: 1",
    "NCCL_IB_CUDA_SUPPORT": "write NCCL_NET_GDR_LEVEL, or remove it: NCCL 2.4 removed it",
    "NCCL_IB_GDR_LEVEL": "write NCCL_NET_GDR_LEVEL",
    "NCCL_NCHUNKS_COARSE": "remove it: it has never existed",
    "NCCL_RINGS": "remove it: NCCL finds its rings itself",
    "NCCL_NRINGS": "write NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NRINGS": "write NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NRINGS": "write NCCL_MAX_NCHANNELS",
    "NCCL_ASYNC_ERROR_HANDLING": "set TORCH_NCCL_ASYNC_ERROR_HANDLING in the job: torch reads it",
    "NCCL_BLOCKING_WAIT": "set TORCH_NCCL_BLOCKING_WAIT in the job: torch reads it",
}
# Variables of NCCL's plugins, which it passes on: HPC-X's, the OFI plugin's, Google's FasTrak and
# TCPX, tuner plugins, which also read the names that begin with these.
_PLUGINS = (
    "NCCL_IBEXT_",
    "NCCL_PLUGIN_",
    "NCCL_UCX_",
    "NCCL_OFI_",
    "NCCL_FASTRAK_",
    "NCCL_GPUDIRECTTCPX_",
    "NCCL_GPUVIZ_",
    "NCCL_SHIMNET_",
    "NCCL_SHARP_",
    "NCCL_TUNER_CONFIG_",
)
RDMA_NAME = re.compile(r"^[\^=]*(mlx[45]_(bond_)?\d+|bnxt_re\d+|irdma\d+|roce[px]\w+|ibp\w+)")


@cache
def own_settings() -> dict[str, str]:
    """Return the variable of the role nccl that sets each NCCL variable which has one.

    The description of such a setting names the NCCL variable first.
    """
    settings = schema.load_shipped().roles["nccl"].variables
    named = ((_NAME.search(each.description), name) for name, each in settings.items())
    return {found[0]: name for found, name in named if found}


@cache
def nccl_variables() -> dict[str, tuple[Version, Version]]:
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


def _versions(node: Node) -> Iterator[Violation]:
    version = node.get("nccl_version")
    if version is not None and _version(version) is None:
        yield Violation(
            "nccl_version",
            f"'{version}' is not an NCCL version",
            'write a version, such as "2.30.7"',
        )


def _traffic_class(node: Node) -> Iterator[Violation]:
    tc, dscp = node.get("nccl_ib_tc"), node.get("fabric_roce_dscp")
    if is_roce(node) and tc is not None and dscp is not None and tc >> 2 != dscp:
        message = f"{tc} is DSCP {tc >> 2}, but fabric_roce_dscp is {dscp}"
        yield Violation("nccl_ib_tc", message, f"write {dscp << 2 | 2}, or remove the line")


def _gid(node: Node) -> Iterator[Violation]:
    index, version = node.get("nccl_ib_gid_index"), _node_version(node)
    if is_roce(node) and index == -1 and version is not None and version < (2, 21):
        message = f"NCCL {version[0]}.{version[1]} cannot choose a GID (2.21 and later can)"
        remedy = "set nccl_ib_gid_index to the index of the rails' RoCE v2 GID, often 3"
        yield Violation("nccl_ib_gid_index", message, remedy, (), ("nccl_version",))


def _named_plugins(node: Node) -> tuple[str, ...]:
    """Return how variables of the plugins begin that the site names, such as NCCL_FASTRAK_."""
    environment = node.get(_ENV) or {}
    named = (str(environment.get("NCCL_NET_PLUGIN", "")), str(node.get("nccl_tuner_plugin") or ""))
    words = (re.sub(r"^(libnccl-(net|tuner)-)|(\.so.*)$", "", name) for name in named)
    return tuple(f"NCCL_{word.upper()}_" for word in words if word.isidentifier())


def _unknown_variables(node: Node) -> Iterator[Violation]:
    version = _node_version(node)
    for name in map(str, node.get(_ENV) or {}):
        if setting := own_settings().get(name):
            message, remedy = f"{name} has its own variable", f"set {setting} instead"
        elif name in _OBSOLETE:
            message, remedy = f"NCCL has no variable {name}", _OBSOLETE[name]
        elif not name.startswith("NCCL_") or name.startswith((*_PLUGINS, *_named_plugins(node))):
            continue
        elif name not in nccl_variables():
            near = difflib.get_close_matches(name, nccl_variables(), n=1)
            remedy = f"did you mean {near[0]}?" if near else "remove it"
            message = f"NCCL has no variable {name}, and ignores it silently"
        elif (
            version is not None
            and not nccl_variables()[name][0] <= version <= nccl_variables()[name][1]
        ):
            message = f"NCCL {version[0]}.{version[1]} does not have {name}"
            remedy = "remove it, or correct nccl_version"
        else:
            continue
        yield Violation(_ENV, message, remedy, (name,))


def _format(node: Node) -> Iterator[Violation]:
    for name, value in (node.get(_ENV) or {}).items():
        if isinstance(value, (list, dict, bool)) or value is None:
            message, remedy = (
                f"{name} is not text or a number",
                "write the value in quotes, as NCCL reads it",
            )
        elif re.search(r"[\n\"']|^\s|\s$", str(value)):
            message = f"the value of {name} has quotes, outer spaces or a line break, "
            message += "which nccl.conf cannot hold"
            remedy = "remove them"
        else:
            continue
        yield Violation(_ENV, message, remedy, (name,))


def _socket(node: Node) -> Iterator[Violation]:
    name = node.get("nccl_socket_ifname") or ""
    if any(RDMA_NAME.match(part) for part in name.split(",")):
        message = f"'{name}' is an RDMA device, not a network device"
        yield Violation(
            "nccl_socket_ifname", message, "write a network device, such as =eth0 or bond0"
        )


def _hca(node: Node) -> Iterator[Violation]:
    devices = node.get("nccl_ib_hca") or []
    for index, name in enumerate(devices):
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            message = f"'{name}' is not an RDMA device"
            remedy = "write a device, such as mlx5_0 (rdmaprov adds the =)"
            yield Violation("nccl_ib_hca", message, remedy, (index,))
    rails = len(node.compute_rails)
    if devices and rails and len(devices) != rails:
        message = f"the list length is {len(devices)}, but the node has {rails} compute rails"
        remedy = "write one device for each of these, or remove the line"
        yield Violation("nccl_ib_hca", message, remedy)


def _family(node: Node) -> Iterator[Violation]:
    family = node.get("nccl_ib_address_family")
    for rail in node.rails:
        if rail.address is not None and family not in (None, f"ipv{rail.address.version}"):
            seen = f"rail {rail.index} has IPv{rail.address.version}"
            message = f"NCCL looks for {family} addresses, but {seen}"
            remedy = "give all rails addresses of one family, and write that family"
            yield Violation("nccl_ib_address_family", message, remedy, (), ("fabric_rails",))
            return


def _range(node: Node) -> Iterator[Violation]:
    text = node.get("nccl_ib_address_range")
    if not text:
        return
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        message = f"'{text}' is not a network"
        yield Violation("nccl_ib_address_range", message, "write a network, such as 198.18.0.0/15")
        return
    for rail in node.rails:
        if rail.address is not None and rail.address.ip not in network:
            subnet = rail.address.network
            message = f"{text} does not contain {subnet}, the subnet of rail {rail.index}"
            remedy = "write a network that contains the subnets of all rails"
            yield Violation("nccl_ib_address_range", message, remedy)
            return


# NCCL src/plugin/plugin_open.cc: MAX_STR_LEN
_LONGEST_LIBRARY = 254
_LIBRARY = re.compile(r"/?[A-Za-z0-9_.+-]+(?:/[A-Za-z0-9_.+-]+)*")


def is_library(name: str) -> bool:
    """Return whether a text is a plugin's name or path, as NCCL opens it."""
    return len(name) <= _LONGEST_LIBRARY and _LIBRARY.fullmatch(name) is not None


def _tuner(node: Node) -> Iterator[Violation]:
    plugin, version = node.get("nccl_tuner_plugin"), _node_version(node)
    if plugin and version is not None and version < (2, 19):
        message = f"NCCL {version[0]}.{version[1]} has no tuner plugins (2.19 and later have)"
        yield Violation(
            "nccl_tuner_plugin",
            message,
            "remove it, or correct nccl_version",
            (),
            ("nccl_version",),
        )
    if plugin and not is_library(plugin):
        message = f"'{plugin}' is not a library's name or path"
        yield Violation("nccl_tuner_plugin", message, "write a name or a path, such as ofi")


RULES = (
    Rule("nccl.version", "The NCCL version is well-formed.", _SOURCE, _versions),
    Rule("nccl.tc", "NCCL marks its data with the fabric's DSCP.",
         "NCCL src/transport/net_ib/connect.cc; RFC 2474", _traffic_class),
    Rule("nccl.gid", "The GID index is set for NCCL before 2.21.", _SOURCE, _gid),
    Rule("nccl.known", "Each NCCL variable exists in the site's NCCL version.",
         _SOURCE, _unknown_variables),
    Rule("nccl.format", "Each value can be written in nccl.conf, which has no quoting.",
         _CONF, _format),
    Rule("nccl.socket", "NCCL_SOCKET_IFNAME names network devices.", _SOURCE, _socket),
    Rule("nccl.hca", "NCCL_IB_HCA names exactly one device for each rail.", _SOURCE, _hca),
    Rule("nccl.family", "The rails' addresses are of the family that NCCL looks for.",
         _SOURCE, _family),
    Rule("nccl.range", "The rails' addresses are in the range that NCCL looks in.",
         _SOURCE, _range),
    Rule("nccl.tuner", "A tuner plugin is a library, of an NCCL that loads such plugins.",
         "NCCL src/plugin/tuner.cc", _tuner),
)  # fmt: skip
