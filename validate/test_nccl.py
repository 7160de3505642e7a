"""/etc/nccl.conf as NCCL reads it, and the GIDs that it leads to."""

import re

import pytest
from testinfra.host import Host

from rdmaprov.facts import (
    CouldNotTell,
    devices,
    gids,
    nccl_settings,
    rails,
    rdma_names,
    software,
    subnet_port,
)
from rdmaprov.inventory import Node, Rail, partitions
from rdmaprov.validate.verdict import (
    AFTER_REBOOT,
    CONFIGURED,
    Setting,
    needs_infiniband,
    needs_roce,
    not_applicable,
)

pytestmark = pytest.mark.state

# Of no effect on how NCCL uses the fabric: logging, and what container images set.
_HARMLESS = re.compile(r"NCCL_(DEBUG(_\w+)?|VERSION|RAS_\w+|PROFILER_\w+|CONF_FILE|SET_\w+)")
# With nccl_conf_existing: merge, other lines of a hand-written file stay, but for these.
_TURNS_OFF = re.compile(r"NCCL_(IB|P2P|SHM|NVLS|COLLNET)_DISABLE|NCCL_NET")
_FAMILIES = {"ipv4": "AF_INET", "ipv6": "AF_INET6"}


_WHEELS = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")
_ADAPTIVE = "NCCL_IB_ADAPTIVE_ROUTING"
# Set by variables of the site's own; the other tests verify their values.
_OWN = [
    "NCCL_IB_HCA",
    "NCCL_IB_TC",
    "NCCL_IB_SL",
    "NCCL_IB_PKEY",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_ADDR_RANGE",
    "NCCL_SOCKET_IFNAME",
    "NCCL_CROSS_NIC",
]
# The same, where the site sets them at all.
_TUNER = {"NCCL_TUNER_PLUGIN": "nccl_tuner_plugin"}


def test_hcas_are_the_rails(host: Host, node: Node) -> None:
    """NCCL_IB_HCA lists the compute rails' RDMA devices by exact name, in the rails' order."""
    wanted = node.get("nccl_ib_hca")
    if not wanted:
        here = devices.read(host)
        wanted = [rails.port_of(here, rail).require_rdma() for rail in node.compute_rails]
    _variable(host, node, "NCCL_IB_HCA", "=" + ",".join(wanted), "fabric_rails")


def test_listed_names_stay_with_their_cards(host: Host, node: Node) -> None:
    """No other RDMA device gets a name that the site lists when a card is missing at a boot."""
    variable, listed, remedy = _listed(node)
    counters = {rdma_names.counter(name) for name in listed} - {""}
    here = devices.read(host).names(devices.INFINIBAND)
    others = [name for name in here if name not in listed and rdma_names.counter(name) in counters]
    if others:
        device = ", ".join(name for name in listed if rdma_names.counter(name))
        look = f"{remedy}, or name them by udev rules (rdma_rename %k NAME_FIXED) unlike the kernel"
        name, where = "origin of the names", devices.INFINIBAND
        setting = Setting(node, device, name, variable, where, look=look)
        setting.reject(f"the kernel's count, also of {', '.join(others)}", "the cards' places")


def test_listed_names_after_reboot(host: Host, node: Node) -> None:
    """Each name that the site lists is the kernel's or one that a udev rule gives."""
    variable, listed, _ = _listed(node)
    renaming = rdma_names.read(host)
    for name in listed:
        if not renaming.keeps(name):
            how = "NAME_FALLBACK" if rdma_names.is_by_place(name) else f"NAME_FIXED {name}"
            look, where = f"write a rule with rdma_rename %k {how}", rdma_names.RULES[0]
            what = "udev rule that gives this name"
            Setting(node, name, what, variable, where, AFTER_REBOOT, look=look).reject(None, "one")


def _listed(node: Node) -> tuple[str, list[str], str]:
    """Return where the site lists RDMA devices by name, the names, and what to write instead."""
    listed: list[str] = node.get("nccl_ib_hca") or []
    if listed:
        return "nccl_ib_hca", listed, "remove nccl_ib_hca, as the rails' devices are found"
    listed = [rail.rdma for rail in node.rails if not rail.netdev and not rail.pci]
    if not listed:
        not_applicable("nccl_ib_hca: [], so the rails' devices are found")
    return "fabric_rails", listed, "write pci in place of rdma"


def test_version_is_the_sites(host: Host, node: Node) -> None:
    """NCCL of the site's Python, else libnccl2, is of nccl_version, as the site writes it."""
    wanted = node.get("nccl_version")
    if "nccl_version" not in node.written:
        not_applicable("the site does not state nccl_version")
    python = software.python_of(node)
    there = bool(python) and software.is_program(host, python)
    wheels = software.python_packages(host, python, _WHEELS) if there else {}
    package = software.packages(host).get("libnccl2")
    seen = next(filter(None, wheels.values()), package.version if package else None)
    if seen is None and not python:
        not_applicable("the node has no NCCL of its own: jobs bring theirs, such as in an image")
    if seen is None and there:
        raise CouldNotTell(f"{python} has none of {', '.join(_WHEELS)}, and there is no libnccl2")
    if not re.match(rf"{re.escape(wanted)}(?!\d)", seen or ""):
        where = f"{python} -m pip list; dpkg -l libnccl2"
        Setting(node, "", "NCCL", "nccl_version", where=where, look=where).reject(seen, wanted)


def test_traffic_class_is_the_fabrics(host: Host, node: Node) -> None:
    """NCCL_IB_TC has the DSCP that the switches expect."""
    needs_roce(node, "NCCL_IB_TC")
    _variable(host, node, "NCCL_IB_TC", str(node.get("nccl_ib_tc")), "nccl_ib_tc")


def test_service_level_is_the_fabrics(host: Host, node: Node) -> None:
    """NCCL_IB_SL is the site's service level; on RoCE, the priority in a VLAN's tag."""
    if node.get("fabric_kind") != "infiniband" and not node.get("nccl_ib_sl"):
        not_applicable("fabric_kind: roce and nccl_ib_sl: 0, so NCCL_IB_SL is not set")
    _variable(host, node, "NCCL_IB_SL", str(node.get("nccl_ib_sl")), "nccl_ib_sl")


def test_partition_is_the_fabrics(host: Host, node: Node, rail: Rail) -> None:
    """NCCL_IB_PKEY, or index 0 without it, is the site's partition in the port's table."""
    needs_infiniband(node, "partition keys")
    wanted = partitions.partition_key(node.get("nccl_ib_pkey") or "")
    if wanted is None:
        not_applicable("nccl_ib_pkey is empty, so NCCL takes index 0")
    if rail not in node.compute_rails:
        not_applicable(f"rail {rail.index} is for storage, which NCCL leaves out")
    rdma = rails.port(host, rail).require_rdma()
    table = subnet_port.read(host, rdma).pkeys
    found = nccl_settings.read_conf(host)
    text = "0" if found is None else found.values.get("NCCL_IB_PKEY", "0")
    if not text.isdecimal():
        raise CouldNotTell(f"{nccl_settings.PATH}: NCCL_IB_PKEY is {text[:20]!r}, not an index")
    seen = table.get(int(text))
    if seen != wanted:
        where = f"{nccl_settings.PATH}; {devices.INFINIBAND}/{rdma}/ports/1/pkeys/{text}"
        what = f"partition key at NCCL_IB_PKEY, index {text},"
        shown = None if seen is None else partitions.shown_key(seen)
        setting = Setting(node, rdma, what, "nccl_ib_pkey", where)
        setting.reject(shown, partitions.shown_key(wanted))


def test_collnet_is_on_where_sharp_is_wanted(host: Host, node: Node) -> None:
    """NCCL_COLLNET_ENABLE lets NCCL reduce in the switches where the site wants SHARP."""
    if node.get("fabric_kind") != "infiniband" or node.get("fabric_sharp") != "wanted":
        not_applicable("the site does not want SHARP (fabric_sharp)")
    _variable(host, node, "NCCL_COLLNET_ENABLE", "1", "fabric_sharp")


def test_adaptive_routing_is_the_sites(host: Host, node: Node) -> None:
    """NCCL_IB_ADAPTIVE_ROUTING is what the site says of adaptive routing."""
    wanted = {"on": "1", "off": "0"}.get(node.get("fabric_adaptive_routing"))
    if wanted is None:
        not_applicable("fabric_adaptive_routing: auto, so NCCL decides")
    _variable(host, node, _ADAPTIVE, wanted, "fabric_adaptive_routing")


def test_gid_index(host: Host, node: Node) -> None:
    """NCCL_IB_GID_INDEX is set only if the site sets it: it overrides the address family."""
    needs_roce(node, "NCCL_IB_GID_INDEX")
    index = node.get("nccl_ib_gid_index")
    wanted = None if index == -1 else str(index)
    _variable(host, node, "NCCL_IB_GID_INDEX", wanted, "nccl_ib_gid_index")


def test_address_family(host: Host, node: Node) -> None:
    """NCCL selects the GID by the address family of the rails."""
    needs_roce(node, "NCCL_IB_ADDR_FAMILY")
    if node.get("nccl_ib_gid_index") != -1:
        not_applicable("the site sets nccl_ib_gid_index instead")
    wanted = _FAMILIES[node.get("nccl_ib_address_family")]
    _variable(host, node, "NCCL_IB_ADDR_FAMILY", wanted, "nccl_ib_address_family")


def test_address_range(host: Host, node: Node) -> None:
    """NCCL uses only GIDs in the site's address range."""
    needs_roce(node, "NCCL_IB_ADDR_RANGE")
    wanted = node.get("nccl_ib_address_range") if node.get("nccl_ib_gid_index") == -1 else ""
    _variable(host, node, "NCCL_IB_ADDR_RANGE", wanted or None, "nccl_ib_address_range")


def test_socket_ifname(host: Host, node: Node) -> None:
    """NCCL bootstraps over the site's network devices."""
    wanted = node.get("nccl_socket_ifname") or None
    _variable(host, node, "NCCL_SOCKET_IFNAME", wanted, "nccl_socket_ifname")


def test_cross_nic(host: Host, node: Node) -> None:
    """NCCL_CROSS_NIC is the site's: whether a ring may change rails."""
    _variable(host, node, "NCCL_CROSS_NIC", str(node.get("nccl_cross_nic")), "nccl_cross_nic")


def test_environment(host: Host, node: Node) -> None:
    """NCCL gets the site's other variables."""
    if not node.get("nccl_environment"):
        not_applicable("nccl_environment: {}")
    for name, value in node.get("nccl_environment").items():
        _variable(host, node, str(name), str(value), "nccl_environment")


def test_tuner_plugin(host: Host, node: Node) -> None:
    """NCCL_TUNER_PLUGIN names the site's tuner plugin."""
    wanted = node.get("nccl_tuner_plugin")
    if not wanted:
        not_applicable("nccl_tuner_plugin is empty, so the site sets no tuner plugin")
    _variable(host, node, "NCCL_TUNER_PLUGIN", wanted, "nccl_tuner_plugin")


def test_nothing_else_is_set(host: Host, node: Node) -> None:
    """The file sets no variable of which the site says nothing, such as NCCL_IB_DISABLE."""
    found = nccl_settings.read_conf(host)
    if found is None:
        not_applicable(f"there is no {nccl_settings.PATH}")
    merges = node.get("nccl_conf_existing") == "merge"
    for name in found.values:
        is_sites = name in (*_OWN, *node.get("nccl_environment"))
        is_sites |= name in _TUNER and bool(node.get(_TUNER[name]))
        is_sites |= name == "NCCL_COLLNET_ENABLE" and node.get("fabric_sharp") == "wanted"
        is_sites |= name == _ADAPTIVE and node.get("fabric_adaptive_routing") != "auto"
        matters = _TURNS_OFF if merges else re.compile("NCCL_.*")
        if not is_sites and matters.fullmatch(name) and not _HARMLESS.fullmatch(name):
            _variable(host, node, name, None, "nccl_environment")


def test_nothing_overrides_the_file(host: Host, node: Node) -> None:
    """No login, user's ~/.nccl.conf or daemon sets a variable to another value than the file."""
    found = nccl_settings.read_conf(host)
    values = {} if found is None else found.values
    for each in nccl_settings.read(host):
        if not _HARMLESS.fullmatch(each.name) and values.get(each.name) != each.value:
            variable, where = "nccl_environment", each.where
            look = f"remove it there, or write it into {variable}"
            setting = Setting(node, where, each.name, variable, where, CONFIGURED, look=look)
            setting.reject(
                each.value, values.get(each.name) or f"as in {nccl_settings.PATH}, absent"
            )


def test_every_line_is_read_as_it_looks(host: Host, node: Node) -> None:
    """No quote, blank, comment or `export` is part of a name or a value."""
    found = nccl_settings.read_conf(host)
    if found is None:
        _variable(host, node, "file", "present", "nccl_conf_existing")
    elif found.odd:
        path = nccl_settings.PATH
        setting = Setting(node, path, "line", "nccl_conf_existing", path, CONFIGURED)
        setting.reject(found.odd[0], "NAME=VALUE, nothing else")


def test_containers_get_the_file(host: Host, node: Node) -> None:
    """Enroot's containers get the file as the site states; engines without it are named."""
    kind = node.get("nccl_enroot")
    found = nccl_settings.in_enroot(host)
    if kind != "off":
        setting = Setting(node, "enroot", "nccl.conf", "nccl_enroot", "/etc/enroot", CONFIGURED)
        setting.require(found, f"by {kind}.d")
        return
    there = [each for each in nccl_settings.engines(host) if each != "enroot" or not found]
    if not there:
        not_applicable("nccl_enroot: off, and no container engine is without the file")
    not_applicable(
        f"nccl_enroot: off. Containers of {', '.join(there)} do not see {nccl_settings.PATH} "
        "unless a job mounts it (roles/nccl/README.md, Containers)"
    )


def test_rail_has_the_gid_that_nccl_takes(host: Host, node: Node, rail: Rail) -> None:
    """The rail has a RoCE v2 GID for its address; at the site's index, where that is set."""
    needs_roce(node, "a GID of RoCE v2")
    rdma = rails.port(host, rail).require_rdma()
    here = gids.read(host).get(rdma, ())
    index = node.get("nccl_ib_gid_index")
    if index != -1:
        pinned = next((gid for gid in here if gid.index == index), None)
        port = f"{devices.INFINIBAND}/{rdma}/ports/1"
        setting = Setting(
            node,
            rdma,
            f"GID {index}",
            "nccl_ib_gid_index",
            where=f"{port}/gid_attrs/types/{index}; {port}/gids/{index}",
            look=f"grep . {port}/gids/*, then correct nccl_ib_gid_index or remove it",
        )
        setting.require(pinned and pinned.type, gids.ROCE_V2)
        if rail.address and not (pinned and pinned.is_of(str(rail.address.ip))):
            setting.reject(pinned and pinned.address, f"that of {rail.address.ip}")
        return
    if rail.address is None:
        not_applicable("the site sets no address on this rail")
    if gids.nccl_gid(here, str(rail.address.ip)) is None:
        seen = [f"{gid.index}: {gid.address} ({gid.type})" for gid in here]
        where = f"{devices.INFINIBAND}/{rdma}/ports/1/gids"
        setting = Setting(node, rdma, "RoCE v2 GID", "fabric_rails", where)
        setting.reject(seen, f"one of {rail.address.ip}")


def _variable(host: Host, node: Node, name: str, wanted: str | None, variable: str) -> None:
    found = nccl_settings.read_conf(host)
    seen = None if found is None else found.values.get(name)
    where = nccl_settings.PATH + (", which is absent" if found is None else "")
    if found is None and wanted is None:
        return
    Setting(node, nccl_settings.PATH, name, variable, where, CONFIGURED).require(seen, wanted)
