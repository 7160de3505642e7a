"""/etc/nccl.conf, derived from the fabric. Runs on the node."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from ..machine import Machine, NodeError
from ..nccl import conf, overrides, tuner
from ..plan import CONFIGURED, Change, NotYet, Plan, Refused, with_the_first
from ..rails import find, partition_key

# These have an argument of their own. An old file's are never kept: an index of a GID, for one,
# counts more than the address family.
OWN = {
    "NCCL_IB_HCA": "nccl_ib_hca",
    "NCCL_IB_TC": "nccl_ib_tc",
    "NCCL_IB_SL": "nccl_ib_sl",
    "NCCL_IB_PKEY": "nccl_ib_pkey",
    "NCCL_IB_GID_INDEX": "nccl_ib_gid_index",
    "NCCL_IB_ADDR_FAMILY": "nccl_ib_address_family",
    "NCCL_IB_ADDR_RANGE": "nccl_ib_address_range",
    "NCCL_SOCKET_IFNAME": "nccl_socket_ifname",
    "NCCL_CROSS_NIC": "nccl_cross_nic",
}
# The same, but an old file's are kept if the site states none: a vendor's plugin is its own.
TUNER = {"NCCL_TUNER_PLUGIN": "nccl_tuner_plugin"}
_HAS_TUNERS = (2, 19)
_CHOOSES_GID = (2, 21)
_FAMILIES = {"ipv4": ("AF_INET", 4), "ipv6": ("AF_INET6", 6)}
_INFINIBAND = "/sys/class/infiniband"


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for NCCL to find the fabric by itself.

    Raises:
        NotYet: a rail has no RDMA device, or that has no GID, yet.
        Refused: a value cannot be, or would not be read as it is written.
    """
    plan = Plan(machine)
    version = _version(arguments["version"])
    own = {
        **_fabric(machine, arguments, version),
        **_tuner(arguments, version),
        **_further(arguments["environment"]),
    }
    before = machine.read(conf.PATH) or ""
    kept = _lines_to_keep(before, own) if arguments["conf_existing"] == "merge" else {}
    _back_up(plan, before)
    text = conf.render(own, kept)
    _write(plan, before, text)
    tuner.containers(plan, arguments["enroot"], conf.effective(conf.lines(text)))
    plan.warnings += overrides.overrides(machine, {**own, **kept}, version)
    plan.warnings += overrides.warnings(arguments, machine.names(_INFINIBAND))
    return plan


def _back_up(plan: Plan, before: str) -> None:
    """Have a copy of a file that somebody wrote or edited."""
    if before.strip() and not conf.is_ours(before):
        # Asked, as a record has the file without its secrets.
        digest = plan.machine.ask(f"digest of {conf.PATH}", lambda: conf.digest(before))
        plan.file(f"{conf.PATH}.backup-{digest}", before, plan.machine.mode(conf.PATH) or 0)


def _tuner(arguments: dict[str, Any], version: tuple[int, int]) -> dict[str, str]:
    """Return the variable of a tuner plugin."""
    plugin = arguments["tuner_plugin"]
    if not plugin:
        return {}
    if version < _HAS_TUNERS:
        raise Refused(
            f"nccl_tuner_plugin: NCCL {version[0]}.{version[1]} has no tuner plugins, and 2.19 and "
            "later have: remove it, or correct nccl_version"
        )
    if why := tuner.plugin_fault(plugin):
        raise Refused(f"nccl_tuner_plugin: {why}")
    return {"NCCL_TUNER_PLUGIN": plugin}


def _fabric(
    machine: Machine, arguments: dict[str, Any], version: tuple[int, int]
) -> dict[str, str]:
    """Return the variables that follow from the fabric."""
    hcas = _hcas(machine, arguments)
    # "=" is for the exact name; mlx5_1 alone is mlx5_10 too. [NCCL src/misc/utils.cc: matchIf]
    found = {"NCCL_IB_HCA": "=" + ",".join(hcas)}
    if arguments["kind"] == "roce":
        found["NCCL_IB_TC"] = _number(arguments, "ib_tc", 255)
        if arguments["ib_sl"]:  # the PCP of a VLAN's tag
            found["NCCL_IB_SL"] = _number(arguments, "ib_sl", 15)
        found.update(_gid(machine, arguments, version, hcas))
    else:
        found["NCCL_IB_SL"] = _number(arguments, "ib_sl", 15)
        if arguments["ib_tc"]:
            found["NCCL_IB_TC"] = _number(arguments, "ib_tc", 255)
        if arguments["ib_pkey"]:
            found["NCCL_IB_PKEY"] = partition_index(machine, hcas, arguments["ib_pkey"])
        if arguments["sharp"] == "wanted":
            found["NCCL_COLLNET_ENABLE"] = "1"
    if arguments["adaptive_routing"] != "auto":
        found["NCCL_IB_ADAPTIVE_ROUTING"] = str(int(arguments["adaptive_routing"] == "on"))
    if arguments["socket_ifname"]:
        found["NCCL_SOCKET_IFNAME"] = _socket(machine, arguments["socket_ifname"])
    found["NCCL_CROSS_NIC"] = str(arguments["cross_nic"])
    return found


def _hcas(machine: Machine, arguments: dict[str, Any]) -> list[str]:
    """Return the names of the RDMA devices, each of which is there."""
    there = machine.names(_INFINIBAND)
    has = ", ".join(there) or "none"
    named: list[str] = arguments["ib_hca"]
    for name in named:
        if name not in there:
            raise NotYet(
                f"{name}: nccl_ib_hca lists it, but there is no such RDMA device; "
                f"{_INFINIBAND} has {has}. Write one of these, or remove nccl_ib_hca: "
                "the rails' devices are found"
            )
    if named:
        return named
    # Storage rails come last, so that the others keep their numbers.
    rails = find(machine, [each for each in arguments["rails"] if each.get("use") != "storage"])
    for rail in rails:
        if not rail.rdma:
            raise NotYet(
                f"rail {rail.index}: there is no RDMA device on {rail.netdev}; {_INFINIBAND} has "
                f"{has}. Is its driver loaded? Run on the node: rdma link"
            )
    return [rail.rdma for rail in rails]


def _gid(
    machine: Machine, arguments: dict[str, Any], version: tuple[int, int], hcas: list[str]
) -> dict[str, str]:
    """Return how NCCL is to choose a GID: by its address, which stays when an index moves."""
    index = arguments["ib_gid_index"]
    if index != -1:
        found = {"NCCL_IB_GID_INDEX": _number(arguments, "ib_gid_index", 255)}
        compute = [each for each in arguments["rails"] if each.get("use") != "storage"]
        addresses = [str(each.get("address") or "").partition("/")[0] for each in compute]
        for hca, address in zip(hcas, addresses):  # noqa: B905 - Python 3.8
            _require_roce_v2(machine, hca, index)
            _require_own(machine, f"{_INFINIBAND}/{hca}/ports/1/gids/{index}", address)
        return found
    if version < _CHOOSES_GID:
        raise Refused(
            f"NCCL {version[0]}.{version[1]} cannot choose a GID, and 2.21 and later can: write "
            "nccl_ib_gid_index with the index of the rails' RoCE v2 GID, often 3"
        )
    name, number = _FAMILIES[arguments["ib_address_family"]]
    found = {"NCCL_IB_ADDR_FAMILY": name}
    if arguments["ib_address_range"]:
        found["NCCL_IB_ADDR_RANGE"] = _network(arguments["ib_address_range"], number)
    return found


def _require_roce_v2(machine: Machine, hca: str, index: int) -> None:
    path = f"{_INFINIBAND}/{hca}/ports/1/gid_attrs/types/{index}"
    try:
        seen = machine.value(path)
    except NodeError:
        seen = None  # EINVAL: that entry has no GID
    if seen is None:
        raise NotYet(
            f"{hca}: there is no GID {index} (nccl_ib_gid_index; {path}). Has the rail "
            "its address? Write another index, or remove nccl_ib_gid_index"
        )
    if seen != "RoCE v2":
        raise Refused(
            f"{hca}: GID {index} is {seen} ({path}), expected RoCE v2: write another "
            "nccl_ib_gid_index, or remove it, and NCCL 2.21 and later choose by the address"
        )


def _require_own(machine: Machine, path: str, address: str) -> None:
    """Refuse the GID of another address than the rail's: RDMA would leave in that one's name."""
    gid = ipaddress.IPv6Address(machine.value(path) or 0)
    if address and int(gid) and ipaddress.ip_address(address) not in (gid, gid.ipv4_mapped):
        raise Refused(
            f"{path} is {gid.ipv4_mapped or gid}, expected {address}: write another "
            "nccl_ib_gid_index, or remove it, and NCCL 2.21 and later choose by the address"
        )


def _network(text: str, version: int) -> str:
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        network = None
    if network is None or network.version != version:
        raise Refused(
            f"nccl_ib_address_range: '{text}' is not a network of IPv{version}: write one, such as "
            + ("198.18.0.0/15" if version == 4 else "2001:db8::/32")
        )
    return text


def _socket(machine: Machine, text: str) -> str:
    """Return the choice of network devices, which leaves at least one.

    [NCCL src/misc/socket.cc: findInterfaces; src/misc/utils.cc: parseStringList]
    """
    excluded, names = text.startswith("^"), text.lstrip("^")
    exact, names = names.startswith("="), names.lstrip("=")
    devices = [name for name in machine.names("/sys/class/net") if name != "lo"]

    def matches(device: str) -> bool:
        return any(
            device == name if exact else device.startswith(name) for name in names.split(",")
        )

    if not re.fullmatch(r"[^\s,]+(,[^\s,]+)*", names) or not any(
        matches(device) != excluded for device in devices
    ):
        raise Refused(
            f"nccl_socket_ifname: '{text}' leaves no network device; /sys/class/net has "
            "{}. Write one, such as ={}".format(
                ", ".join(devices) or "none", (devices or ["eth0"])[0]
            )
        )
    return text


def _further(environment: dict[str, Any]) -> dict[str, str]:
    """Return the site's further variables. Which ones NCCL knows, `rdmaprov check` says."""
    found = {}
    for name, value in sorted(environment.items()):
        if setting := OWN.get(name) or TUNER.get(name):
            raise Refused(f"nccl_environment: {name} has a setting of its own: write {setting}")
        if isinstance(value, (bool, list, dict)) or value is None:
            raise Refused(f"nccl_environment: {name} needs a number or a text: write NCCL's own")
        why = conf.trap(name, str(value))
        if why:
            raise Refused(f"nccl_environment: {why}")
        found[name] = str(value)
    return found


def _lines_to_keep(text: str, own: dict[str, str]) -> dict[str, str]:
    """Return the variables of others that stay."""
    found = [line for line in conf.of_others(text) if line.name not in {**OWN, **own}]
    for line in found:
        why = conf.trap(line.name, line.value)
        if why:
            raise Refused(f"{conf.PATH}:{line.number}: {why}; or remove the line")
    return conf.effective(found)


def _write(plan: Plan, before: str, text: str) -> None:
    """Have the file, as one step with a change for each variable that it changes."""
    was = conf.effective(conf.lines(before))
    will = conf.effective(conf.lines(text))
    changes = [
        Change(CONFIGURED, conf.PATH, name, was.get(name, "absent"), will.get(name, "absent"))
        for name in {**was, **will}
        if was.get(name) != will.get(name)
    ]
    if not plan.file(conf.PATH, text, change=changes[0] if changes else None):
        return
    for change in changes[1:]:
        plan.add(change, with_the_first)


def _version(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)*", text)
    if found is None:
        raise Refused(f"nccl_version: '{text}' is not a version: write one, such as '2.30'")
    return int(found[1]), int(found[2])


def _number(arguments: dict[str, Any], name: str, largest: int) -> str:
    value = arguments[name]
    if not 0 <= value <= largest:
        raise Refused(f"nccl_{name} is {value}, expected 0 to {largest}")
    return str(value)


def partition_index(machine: Machine, hcas: list[str], key: str) -> str:
    """Return the index of a partition key, which must be the same on all ports that NCCL uses.

    NCCL has one index for all of them. [NCCL src/transport/net_ib/connect.cc: ncclParamIbPkey]

    Raises:
        NotYet: the subnet manager has not given a port the key.
        Refused: the text is no key, or no index has it on all ports.
    """
    wanted = partition_key(key)
    if wanted is None:
        raise Refused(
            f"nccl_ib_pkey: '{key}' is not a partition key: write one of fabric_partition_keys, "
            'such as "0x8001"'
        )
    common: set[int] = set()
    for number, hca in enumerate(hcas):
        places = _indexes(machine, hca, wanted)
        if not places:
            raise NotYet(
                f"{hca}: its port has no partition key {key} (nccl_ib_pkey; "
                f"{_INFINIBAND}/{hca}/ports/1/pkeys). Add the port to the partition in the subnet "
                "manager's partitions.conf"
            )
        common = common & places if number else places
    if not common:
        raise Refused(
            f"nccl_ib_pkey: {key} has no index that is the same on {', '.join(hcas)} "
            f"({_INFINIBAND}/*/ports/1/pkeys), and NCCL_IB_PKEY is one index for all: give the "
            "ports the same partitions in the subnet manager"
        )
    return str(min(common))


def _indexes(machine: Machine, hca: str, wanted: int) -> set[int]:
    """Return where a port has a key; the kernel writes it as 0x8001."""
    table = f"{_INFINIBAND}/{hca}/ports/1/pkeys"
    found = set()
    for name in machine.names(table):
        text = machine.value(f"{table}/{name}") or ""
        if name.isdigit() and re.fullmatch(r"0x[0-9a-f]{4}", text) and int(text, 16) == wanted:
            found.add(int(name))
    return found
