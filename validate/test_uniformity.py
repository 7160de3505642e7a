"""Nodes of one kind have the same software and firmware; those that differ are named.

What makes nodes comparable is read, not configured: the same model of machine for its BIOS, the
same model of NIC for its firmware, the same values of the site for software that it describes.
"""

import zlib
from collections.abc import Callable

import pytest
from testinfra.host import Host

from rdmaprov.facts import devices, gpu, pci, rails, software, subnet_port, uniform
from rdmaprov.facts.text import read_files
from rdmaprov.facts.uniform import Sample
from rdmaprov.inventory import Fleet, Node, Rail
from rdmaprov.validate.hosts import Hosts
from rdmaprov.validate.verdict import Setting, not_applicable, settle

pytestmark = pytest.mark.state

_RELEASE, _OS = "/proc/sys/kernel/osrelease", "/etc/os-release"
_DMI = "/sys/class/dmi/id"
_VBIOS, _PART = "vbios version", ("product name", "board part number", "gpu part number")


def test_kernel(fleet: Fleet, hosts: Hosts) -> None:
    """Nodes with the same distribution run the same kernel."""

    def of(host: Host, node: Node) -> list[Sample]:
        files = read_files(host, _RELEASE, _OS)
        return [Sample(node.name, "kernel", files.must(_OS), files.must(_RELEASE))]

    _uniform(fleet, hosts, "release", "ofed_hold", _RELEASE, of)


def test_drivers(fleet: Fleet, hosts: Hosts) -> None:
    """All nodes run the same version and build of each module of the RDMA stack."""

    def of(host: Host, node: Node) -> list[Sample]:
        release = read_files(host, _RELEASE).must(_RELEASE)
        loaded = software.modules(host)
        values = {name: each.version or each.source for name, each in loaded.items()}
        return uniform.make_samples(node.name, values, (release, node.get("ofed_source")))

    _uniform(fleet, hosts, "driver", "ofed_version", "/sys/module/*/version", of)


def test_ofed(fleet: Fleet, hosts: Hosts) -> None:
    """Nodes with equal site values have the same OFED."""

    def of(host: Host, node: Node) -> list[Sample]:
        says = software.ofed(host)
        value = f"{says.flavour} {says.version}" if says else "inbox"
        kind = (node.get("ofed_source"), node.get("ofed_version"))
        return [Sample(node.name, "OFED", kind, value)]

    _uniform(fleet, hosts, "version", "ofed_version", "ofed_info -s", of)


def test_nic_firmware(fleet: Fleet, hosts: Hosts) -> None:
    """NICs of the same model run the same firmware."""
    boards = f"{devices.INFINIBAND}/*/board_id"

    def of(host: Host, node: Node) -> list[Sample]:
        here = devices.read(host)
        found = []
        for rail in node.rails:
            rdma = rails.port_of(here, rail).require_rdma()
            board = here.files.value(f"{devices.INFINIBAND}/{rdma}/board_id")
            if board is not None and not here.is_software(rdma):
                version = here.files.must(f"{devices.INFINIBAND}/{rdma}/fw_ver")
                found.append(Sample(node.name, rdma, board, version))
        return found

    _uniform(
        fleet, hosts, "firmware", "mlx5_firmware_version", boards.replace("board_id", "fw_ver"), of
    )


def test_bios(fleet: Fleet, hosts: Hosts) -> None:
    """Nodes of the same model have the same BIOS version."""

    def of(host: Host, node: Node) -> list[Sample]:
        files = read_files(host, f"{_DMI}/bios_version", f"{_DMI}/product_name")
        model, version = (
            files.value(f"{_DMI}/{each}") for each in ("product_name", "bios_version")
        )
        return [] if version is None else [Sample(node.name, "BIOS", model, version)]

    _uniform(fleet, hosts, "version", "fabric_kind", f"{_DMI}/bios_version", of)


def test_nccl(fleet: Fleet, hosts: Hosts) -> None:
    """Nodes with equal site values have the same NCCL, of the system and of torch."""

    def of(host: Host, node: Node) -> list[Sample]:
        package = software.packages(host).get("libnccl2")
        values = {"libnccl2": package.version if package else "absent"}
        python = software.python_of(node)
        if python and software.is_program(host, python):
            names = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")
            seen = software.python_packages(host, python, names)
            values |= {name: version or "absent" for name, version in seen.items()}
        return uniform.make_samples(node.name, values, (node.get("nccl_version"), python))

    _uniform(fleet, hosts, "version", "nccl_version", "dpkg -l libnccl2; pip list", of)


def test_torch(fleet: Fleet, hosts: Hosts) -> None:
    """Nodes with equal site values have the same torch."""

    def of(host: Host, node: Node) -> list[Sample]:
        python = software.python_of(node)
        if not python:
            return []
        seen = "absent"
        if software.is_program(host, python):
            seen = software.python_packages(host, python, ("torch",))["torch"] or seen
        kind = tuple(node.get("torch_runtime_requirements"))
        return [Sample(node.name, "torch", kind, seen)]

    _uniform(fleet, hosts, "version", "torch_runtime_requirements", "pip list", of)


def test_vbios(fleet: Fleet, hosts: Hosts) -> None:
    """GPUs of the same part number have the same VBIOS."""

    def of(host: Host, node: Node) -> list[Sample]:
        gpus = gpu.read(host).gpus if pci.Functions.read(host).gpus((pci.NVIDIA,)) else ()
        return [
            Sample(
                node.name, each.address, tuple(map(each.values.get, _PART)), each.text(_VBIOS) or ""
            )
            for each in gpus
        ]

    _uniform(fleet, hosts, "VBIOS", "", gpu.QUERY, of)


def test_nvlink_domains(fleet: Fleet, hosts: Hosts) -> None:
    """All GPUs of an NVLink domain are in one cluster and clique, which no other domain has."""

    def of(host: Host, node: Node) -> list[Sample]:
        domain, found = node.get("fabric_nvlink_domain"), []
        for each in gpu.read(host).gpus if domain else ():
            found.append(Sample(node.name, each.address, domain, each.cluster or "no cluster"))
            if each.cluster:
                found.append(Sample(node.name, each.address, ("of", each.cluster), domain))
        return found

    _uniform(fleet, hosts, "NVLink", "fabric_nvlink_domain", gpu.QUERY, of)


def test_imex_lists(fleet: Fleet, hosts: Hosts) -> None:
    """All nodes of an NVLink domain have the same list of nodes, in one order, for IMEX."""

    def of(host: Host, node: Node) -> list[Sample]:
        domain = node.get("fabric_nvlink_domain")
        listed = gpu.imex_nodes(host) if domain else ()
        value = f"{len(listed)} nodes, CRC {zlib.crc32(' '.join(listed).encode()):08x}"
        # With no list, a job starts IMEX itself.
        return [Sample(node.name, gpu.NODES, domain, value)] if listed else []

    _uniform(fleet, hosts, "list", "fabric_nvlink_domain", gpu.NODES, of)


def test_guids(fleet: Fleet, hosts: Hosts) -> None:
    """Each InfiniBand port has a GUID of its own: the subnet manager takes two for one."""
    owners: dict[int, list[tuple[Node, str]]] = {}
    unknown = _each_port(
        fleet,
        hosts,
        lambda node, _, rdma, port: owners.setdefault(port.guid, []).append((node, rdma)),
    )
    hosts.compared += [
        ("port GUID", node.name, rdma, uniform.UNIQUE, f"0x{guid:016x}")
        for guid, each in owners.items()
        for node, rdma in each
    ]
    shared = {guid: each for guid, each in owners.items() if guid == 0 or len(each) > 1}
    settle(
        [
            _guid(node, rdma).text(f"0x{guid:016x}, also of {_others(each, node, rdma)}", "unique")
            for guid, each in shared.items()
            for node, rdma in each
        ],
        unknown,
    )


def _guid(node: Node, rdma: str) -> Setting:
    where = f"{devices.INFINIBAND}/{rdma}/ports/1/gids/0"
    look = f"mlxfwmanager -d {rdma} --query, then burn the GUID of the card's label"
    return Setting(node, rdma, "port GUID", "", where, look=look)


def _others(owners: list[tuple[Node, str]], node: Node, rdma: str) -> str:
    names = [
        f"{other.name} {device}" for other, device in owners if (other, device) != (node, rdma)
    ]
    return ", ".join(names) or "a port that was given none"


def test_subnets(fleet: Fleet, hosts: Hosts) -> None:
    """Rail i of all nodes is one InfiniBand subnet: one prefix, and one subnet manager's LID."""
    samples: list[Sample] = []

    def add(node: Node, rail: Rail, rdma: str, port: subnet_port.SubnetPort) -> None:
        plane = next(key for key, each in node.planes.items() if each == rail)
        prefix = f"0x{port.prefix:016x}"
        wanted, manager = ("prefix", plane, rail.subnet_prefix), ("SM LID", plane, prefix)
        samples.append(Sample(node.name, f"{rdma} prefix", wanted, prefix))
        samples.append(Sample(node.name, f"{rdma} SM LID", manager, str(port.sm_lid)))

    unknown = _each_port(fleet, hosts, add)
    _note(hosts, "subnet", samples)
    nodes = {node.name: node for node in fleet.nodes}
    settle(
        [
            _subnet(nodes[odd.sample.node], *odd.sample.device.split(" ", 1)).text(
                odd.sample.value, f"{odd.usual} ({odd.share})"
            )
            for odd in uniform.odd_ones(samples)
        ],
        unknown,
    )


def _subnet(node: Node, rdma: str, what: str) -> Setting:
    file, name = ("gids/0", "subnet prefix") if what == "prefix" else ("sm_lid", what)
    where = f"{devices.INFINIBAND}/{rdma}/ports/1/{file}"
    look = f"sminfo -C {rdma}, then check the cable: it leads to another subnet"
    return Setting(node, rdma, name, "fabric_rails", where, look=look)


def _each_port(
    fleet: Fleet, hosts: Hosts, take: Callable[[Node, Rail, str, subnet_port.SubnetPort], object]
) -> list[str]:
    """Give each InfiniBand rail's port; return what could not be read."""
    nodes = [node for node in fleet.nodes if node.get("fabric_kind") == "infiniband"]
    if not nodes:
        not_applicable("fabric_kind: roce, which has no subnet manager")
    if len(nodes) < 2:
        not_applicable("only one node is selected; comparing needs two")
    unknown = []
    for node in nodes:
        try:
            here = devices.read(hosts[node.name])
            for rail in node.rails:
                rdma = rails.port_of(here, rail).require_rdma()
                take(node, rail, rdma, subnet_port.read(hosts[node.name], rdma))
        except Exception as error:  # each kind of connection has its own
            unknown.append(f"{node.name}: {getattr(error, 'why', error)}")
    return unknown


def _uniform(
    fleet: Fleet,
    hosts: Hosts,
    setting: str,
    variable: str,
    where: str,
    of: Callable[[Host, Node], list[Sample]],
) -> None:
    """Fail with a line for each node that is not like the others; unreadable ones are an error."""
    if len(fleet.nodes) < 2:
        not_applicable("only one node is selected; comparing needs two")
    nodes = {node.name: node for node in fleet.nodes}
    samples: list[Sample] = []
    unknown = []
    for name, node in nodes.items():
        try:
            samples += of(hosts[name], node)
        except Exception as error:  # each kind of connection has its own
            unknown.append(f"{name}: {getattr(error, 'why', error)}")
    _note(hosts, setting, samples)
    settle(
        [
            Setting(nodes[odd.sample.node], odd.sample.device, setting, variable, where=where).text(
                odd.sample.value, f"{odd.usual} ({odd.share})"
            )
            for odd in uniform.odd_ones(samples)
        ],
        unknown,
    )
    if not samples:
        not_applicable("no selected node has one")


def _note(hosts: Hosts, setting: str, samples: list[Sample]) -> None:
    """Keep samples for `merge`, which compares those of several runs."""
    hosts.compared += [
        (setting, each.node, each.device, str(each.kind), each.value) for each in samples
    ]
