"""The collector's facts as host variables."""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from rdmaprov.discover.rails import choose_rails, is_down, is_same_rail, link_gbps, shared_bridges
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.lldp_daemons import parse_lldpad, parse_lldpd
from rdmaprov.facts.neighbors import LLDPCTL, Neighborhood, of_lldpad, of_lldpd
from rdmaprov.inventory.model import Node
from rdmaprov.runs.files import write_whole
from rdmaprov.words import quantity

_PYTHON_MINOR = 8  # ansible-core's least on nodes
_KERNEL_KEEPS = 1.1  # of installed memory to MemTotal, at most


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.explicit_start = True
    return yaml


def format_yaml(variables: Mapping[str, Any]) -> str:
    """Return variables as YAML."""
    stream = StringIO()
    _yaml().dump(dict(variables), stream)
    return stream.getvalue()


def merge_host_vars(site: Path, host: str, variables: Mapping[str, Any]) -> Path | None:
    """Merge variables into a host's file; return its path, or None if it did not change.

    Raises:
        OSError: the file cannot be written; it is as it was.
    """
    path = next(
        (found for suffix in ("yml", "yaml") if (found := _file(site, host, suffix)).is_file()),
        _file(site, host, "yml"),
    )
    before = path.read_text() if path.is_file() else ""
    yaml = _yaml()
    content = yaml.load(before) or {}
    for name, value in variables.items():
        if content.get(name) != value:
            content[name] = value
    stream = StringIO()
    yaml.dump(content, stream)
    if not variables or stream.getvalue() == before:
        return None
    path.parent.mkdir(exist_ok=True)
    _replace(path.resolve(), stream.getvalue())
    return path


def _replace(path: Path, text: str) -> None:
    """Write a file of the site completely or not at all; it keeps its owner and permissions."""
    before = path.stat() if path.is_file() else None
    write_whole(path, text, mode=0o666)
    if before is not None:
        path.chmod(stat.S_IMODE(before.st_mode))
        with contextlib.suppress(PermissionError):  # only root may give a file away
            os.chown(path, before.st_uid, before.st_gid)


def _file(site: Path, host: str, suffix: str) -> Path:
    return site / "host_vars" / f"{host}.{suffix}"


def neighbor_remarks(facts: Mapping[str, Any], rails: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each port of a rail whose neighbour is known, or odd."""
    said = facts["lldp"]
    if said["error"]:
        yield f"the neighbours of its rails are unknown: {said['error']}"
        return
    try:
        known = _neighborhood(said)
    except CouldNotTell as error:
        yield f"the neighbours of its rails are unknown: {error.why}"
        return
    for rail in rails:
        for port in rail["ports"]:
            try:
                neighbor = known.of(port)
            except CouldNotTell as error:
                yield f"the neighbour of {rail['device']} is unknown: {error.why}"
                continue
            if neighbor is not None:
                look = known.at(port)
                yield f"{rail['device']} is cabled to {neighbor.label} (read: {look})"


def _neighborhood(said: Mapping[str, str]) -> Neighborhood:
    """Return what the daemon told."""
    if said["lldpd"]:
        return of_lldpd(parse_lldpd(_text(said["lldpd"]), LLDPCTL))
    return of_lldpad(parse_lldpad(_text(said["lldpad"])) if said["lldpad"] else {})


def _text(digits: str) -> str:
    return bytes.fromhex(digits).decode("utf-8", "surrogateescape")


def host_variables(facts: Mapping[str, Any], node: Node | None = None) -> dict[str, Any]:
    """Return the host variables that describe a node's hardware.

    Args:
        node: the node in the site; its addresses, gateways and GPUs of rails are kept.
    """
    found, _ = choose_rails(facts, node)
    rails = [_rail(rail) for rail in found]
    _assign_gpus(rails, found, facts["gpus"])
    variables: dict[str, Any] = (
        {"fabric_rails": _in_site_order(rails, found, node)} if rails else {}
    )
    if rate := _common_rate(found):
        variables["fabric_link_gbps"] = rate
    variables["fabric_gpu_count"] = len(facts["gpus"])
    optional = {
        "fabric_memory_bytes": facts["memory_bytes"],
        "fabric_numa_nodes": facts["numa_nodes"],
        "peermem_gpu_module": facts["gpu_module"],
        "peermem_kernel_version": facts["kernel"],
    }
    return variables | {name: value for name, value in optional.items() if value}


def remarks(facts: Mapping[str, Any], node: Node | None = None) -> Iterator[str]:
    """Yield what to repair before the variables are complete, and what each rail is cabled to."""
    found, left_out = choose_rails(facts, node)
    for each in left_out:
        yield f"{each.name} is no rail: {each.why}"
    yield from _bare_remarks(facts)
    if facts["python_minor"] < _PYTHON_MINOR:
        yield (
            f"its newest Python is 3.{facts['python_minor']}, as RHEL 8's own is: plan and apply "
            f"need 3.{_PYTHON_MINOR} or newer; install one, such as AppStream's python3.11"
        )
    for rail in found:
        if is_down(rail):
            yield f"{rail['device']} is a rail without a link: its port is {rail['state']}"
        for each in rail["partitions"]:
            of = f"the IPoIB interface of partition {each['key']} on {rail['netdev']}"
            yield f"{rail['device']}: {each['netdev']} is {of}"
    yield from neighbor_remarks(facts, found)
    is_in_site = node is not None and node.get("fabric_link_gbps")
    if found and not _common_rate(found) and not is_in_site:
        rates = " and ".join(str(rate) for rate in _rates(found) if rate)
        why = f"its rails run at {rates} Gb/s" if rates else "no rail has a link of a known rate"
        yield f"fabric_link_gbps is not written: {why}"


def _bare_remarks(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield what to do where NICs have no RDMA device, or where there is none."""
    nics = facts["bare_nics"]
    if nics:
        drivers = ", ".join(sorted({each["driver"] or "none" for each in nics}))
        what = f"{quantity(len(nics), 'NVIDIA NIC')} without an RDMA device (driver: {drivers}): "
        yield what + ", ".join(each["pci"] for each in nics)
    elif not facts["rails"]:
        yield "it has no RDMA device (/sys/class/infiniband), and no NVIDIA NIC (lspci -d 15b3:)"
    if nics and not facts["rails"]:
        rails = ", ".join(f'{{pci: "{each["pci"]}"}}' for each in nics)
        yield (
            "load its RDMA driver (modprobe mlx5_ib), or have rdmaprov install one: write "
            f"ofed_source (inbox; or doca, with ofed_version) and fabric_rails: [{rails}], without "
            "those that are no rails; run: rdmaprov apply --roles ofed; then discover again"
        )


def is_unknown(facts: Mapping[str, Any], node: Node | None = None) -> bool:
    """Return whether a node has no rail that can be used, or a device of a kind not supported."""
    found, _ = choose_rails(facts, node)
    return not found or any(each["unfit"] and not each["is_smi"] for each in facts["rails"])


def _common_rate(found: Sequence[Mapping[str, Any]]) -> int:
    """Return the rate of all rails that have a link, in Gb/s; 0 if it differs or is unknown."""
    rates = _rates(found)
    return rates[0] if len(rates) == 1 else 0


def _rates(found: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the rates of the rails that have a link, in Gb/s; 0 is unknown."""
    return sorted({link_gbps(rail) for rail in found if not is_down(rail)})


@dataclass(frozen=True)
class Difference:
    """A variable that the node contradicts; the site may demand what is broken."""

    name: str
    written: object
    seen: object

    @property
    def text(self) -> str:
        """Return both values on one line."""
        return f"{self.name}: the site has {self.written!r}, the node {self.seen!r}"


def compare(
    variables: Mapping[str, Any], node: Node
) -> tuple[dict[str, Any], tuple[Difference, ...]]:
    """Return the variables that the site lacks, and those that it sets to something else."""
    new: dict[str, Any] = {}
    different = []
    for name, value in variables.items():
        if _is_in_site(name, value, node):
            continue
        if name in node.written and not _extends(name, node.get(name), value):
            different.append(Difference(name, node.get(name), value))
        else:
            new[name] = value
    return new, tuple(different)


def _extends(name: str, written: object, seen: object) -> bool:
    """Return whether rails as seen have all that is written of each, and more."""
    if name != "fabric_rails" or not isinstance(written, list) or not isinstance(seen, list):
        return False
    pairs = zip(written, seen, strict=False)
    return len(seen) >= len(written) and all(one.items() <= other.items() for one, other in pairs)


def _is_in_site(name: str, value: object, node: Node) -> bool:
    current = node.get(name)
    if name == "fabric_memory_bytes" and isinstance(value, int) and current:
        # The kernel reserves some of the installed memory; newer kernels reserve more.
        return bool(value <= current <= value * _KERNEL_KEEPS)
    return bool(current == value)


def _rail(rail: Mapping[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    # The PCI function of a bond's RDMA device is that of its first port.
    if rail["pci"] and not rail["is_bond"]:
        entry["pci"] = rail["pci"]
    else:
        entry["netdev"] = rail["netdev"]
    if rail["addresses"]:
        entry["address"] = rail["addresses"][0]
        return entry
    used = [each for each in rail["partitions"] if each["addresses"]]
    # Of another name, it is not what ipoib_pkey would make.
    if len(used) == 1 and used[0]["netdev"] == f"{rail['netdev']}.{used[0]['key'][2:]}":
        entry |= {"ipoib_pkey": used[0]["key"], "address": used[0]["addresses"][0]}
    return entry


def _in_site_order(
    rails: list[dict[str, Any]], found: list[Mapping[str, Any]], node: Node | None
) -> list[dict[str, Any]]:
    """Return the rails in the site's order, with the values that the site sets."""
    in_site = list(node.get("fabric_rails") or []) if node is not None else []
    merged: list[dict[str, Any]] = []
    left = list(range(len(rails)))
    for entry in in_site:
        same = [i for i in left if is_same_rail(entry, found[i])]
        if same:
            merged.append(
                {**rails[same[0]], **entry} if "pci" in entry else _by_name(rails[same[0]], entry)
            )
            left.remove(same[0])
    return merged + [rails[index] for index in left]


def _by_name(rail: dict[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rail by its network or RDMA device, as the site names it, not its PCI address."""
    return {**{key: value for key, value in rail.items() if key != "pci"}, **entry}


def _assign_gpus(
    rails: list[dict[str, Any]], found: list[Mapping[str, Any]], gpus: list[Mapping[str, Any]]
) -> None:
    """Assign each GPU to the nearest rail in the PCI tree; of equals, to that with fewest GPUs."""
    if not rails or not gpus:
        return
    owned: list[list[int]] = [[] for _ in rails]
    for index, gpu in enumerate(gpus):
        best = max(
            range(len(rails)),
            key=lambda i: (
                shared_bridges(found[i]["path"], gpu["path"]),
                found[i]["numa_node"] == gpu["numa_node"],
                -len(owned[i]),
                -i,
            ),
        )
        owned[best].append(index)
    for entry, mine in zip(rails, owned, strict=True):
        if mine:
            entry["gpus"] = mine
