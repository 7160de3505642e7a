"""A new site, written from a few facts or copied."""

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from rdmaprov.errors import UsageError
from rdmaprov.inventory import host_positions, names

MOST_NODES = 253
_PCI = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
# As the driver names it; rdma-core may give it the name of a network device, such as ibp24s0.
_RDMA = re.compile(r"mlx[45]_\d+")
_SLURM_RANGE = re.compile(r"\[(\d+)-(\d+)\]")
# gpu01-gpu04, the same words before and behind both numbers; rack1-node4 is a name.
_WRITTEN_RANGE = re.compile(r"([^\[\]]*?)(\d+)(|[^\[\]\d][^\[\]]*)(?:-|:|\.\.)\1(\d+)\3")
# gpu01-16, gpu01..16, ens1-8np0.
_SHORT_RANGE = re.compile(r"([^\[\]:]*[^\[\]:\d])(\d+)(-|\.\.)(\d+)(|\.[^\[\]]*|np\d+)")
_TO = re.compile(r"\s+(?:to|through|-|:|\.\.)\s+", re.IGNORECASE)
_AND = re.compile(r"\s+(?:and|&)\s+|,", re.IGNORECASE)
_NO_NAMES = ("to", "through", "and", "-")
# What vendors' guides give as the defaults of a RoCE fabric; no answer says what the switches have.
ROCE = {
    "fabric_mtu_bytes": 9000,
    "fabric_roce_dscp": 26,
    "fabric_lossless_priority": 3,
    "fabric_cnp_dscp": 48,
    "fabric_cnp_priority": 6,
}
_AGAIN = "Run the same command with another value; see: rdmaprov init --help"


@dataclass(frozen=True)
class Facts:
    """What a site is written from."""

    kind: str  # roce or infiniband
    nodes: tuple[str, ...]  # host names; ranges such as gpu[01:16] stand for several
    # network devices or PCI addresses, on InfiniBand also RDMA devices; in order
    rails: tuple[str, ...]
    gbps: float
    gpus: int  # GPUs in a node, shared out evenly among the rails
    subnet: str  # rail i gets the i-th /24 of it; empty for rails without addresses
    user: str
    partition_keys: tuple[str, ...] = ()  # of the rails' ports on InfiniBand; empty accepts any
    # of the fabric, by variable, in place of those that are assumed
    settings: Mapping[str, int] = field(default_factory=dict)
    is_checked: bool = False  # whether Slurm has the nodes, and runs a HealthCheckProgram on them


def texts(facts: Facts) -> dict[str, bytes]:
    """Return the files of the site, by their names in its directory; UsageError: a fact is none."""
    made = {"hosts.yml": _hosts(facts), "group_vars/all.yml": _variables(facts)}
    return {name: text.encode() for name, text in made.items()}


def copied(source: Path) -> dict[str, bytes]:
    """Return the files of another site, by their names; not the lab's own hosts."""
    found = {str(path.relative_to(source)): path for path in sorted(source.rglob("*.yml"))}
    if source.name == "lab":
        found.pop("hosts.yml", None)
    return {name: path.read_bytes() for name, path in found.items()}


def host_names(facts: Facts) -> list[str]:
    """Return the names of the nodes, each of a range on its own; refuse what is none."""
    found = [name for pattern in facts.nodes for name in expanded(pattern)]
    for name in found:
        if not names.is_safe(name):
            message = f"'{name}' is neither a host name nor a range such as gpu[01:16]"
            raise UsageError(message, _AGAIN)
    twice = [name for name, count in Counter(found).items() if count > 1]
    if twice:
        raise UsageError(f"{twice[0]} is listed twice", _AGAIN)
    if not 1 <= len(found) <= MOST_NODES:
        message = f"{len(found)} nodes: init writes a site of 1 to {MOST_NODES}"
        raise UsageError(message, "For more, copy a site: rdmaprov init --from prod DIRECTORY")
    return found


def expanded(pattern: str) -> list[str]:
    """Return the names of a range: ens[1:8]np0 as in Ansible, ens[1-8] as in Slurm, ens1-ens8."""
    return list(host_positions.expand_range(_SLURM_RANGE.sub(r"[\1:\2]", _brackets(pattern))))


def listed(text: str) -> tuple[str, ...]:
    """Return the names and ranges in a text: gpu01 to gpu16, spare. UsageError: a range is none."""
    words = tuple(_AND.sub(" ", _TO.sub("..", text)).split())
    for word in words:
        if word.lower() in _NO_NAMES or (".." in word and "[" not in _brackets(word)):
            raise UsageError(f"'{word}' is no range; write one such as gpu[01:16]", _AGAIN)
    short = [(found[1], word) for word in words if (found := _SHORT_RANGE.fullmatch(word))]
    names_too = {head: word for head, word in short if _brackets(word) == word}
    for head, word in short:
        if head in names_too and _brackets(word) != word:
            why = f"'{word}' may be a range or a name, as {names_too[head]} is"
            raise UsageError(f"{why}; write one such as rack1-[1:2]", _AGAIN)
    return words


def _brackets(pattern: str) -> str:
    """Return a range without brackets as one with them; gpu1-16 and rack2-1 are names."""
    if _PCI.fullmatch(pattern):
        return pattern
    found = _WRITTEN_RANGE.fullmatch(pattern)
    if found and found[1]:
        return f"{found[1]}[{found[2]}:{found[4]}]{found[3]}"
    if not (found := _SHORT_RANGE.fullmatch(pattern)):
        return pattern
    head, first, sign, last, tail = found.groups()
    is_name = sign == "-" and (len(last) > len(first) or int(last) <= int(first))
    return pattern if is_name else f"{head}[{first}:{last.zfill(len(first))}]{tail}"


def _hosts(facts: Facts) -> str:
    about = " A node's number is the last part of its rails' addresses." if facts.subnet else ""
    lines = ["---", f"# The nodes of the fleet.{about}", "nodes:", "  hosts:"]
    for number, name in enumerate(host_names(facts), start=1):
        plain = ":" not in name and yaml.safe_load(name) == name
        quoted = name if plain else f'"{name}"'
        lines.append(f"    {quoted}:" + (f" {{node_number: {number}}}" if facts.subnet else ""))
    return "\n".join(lines) + "\n"


def _variables(facts: Facts) -> str:
    parts = [
        "---",
        "# The state of every node. All variables: rdmaprov schema",
        f"ansible_user: {facts.user}",
        *([] if facts.user == "root" else ["ansible_become: true"]),
        "",
        "# The fabric. On RoCE, DSCP and priority must match the switches.",
        f"fabric_kind: {facts.kind}",
        f"fabric_link_gbps: {facts.gbps:g}",
    ]
    if facts.kind == "roce":
        parts += [f"{name}: {value}" for name, value in {**ROCE, **facts.settings}.items()]
    else:
        parts += [f"{name}: {value}" for name, value in facts.settings.items()]
        parts += _infiniband(facts)
    parts += ["", "# The hardware.", f"fabric_gpu_count: {facts.gpus}"]
    parts += ["", "# The rails, in order: rail i of every node is on the same network plane."]
    parts += ["fabric_rails:", *_rails(facts)]
    parts += ["", "# never, or if-needed: apply reboots each node that requires it."]
    parts += ["reboot_policy: never"]
    if facts.is_checked:
        parts += ["", "# Slurm's HealthCheckProgram may drain nodes, or end ranks, of no job."]
        parts += ["scheduler_kind: slurm", "torch_runtime_launcher: slurm"]
    return "\n".join(parts) + "\n"


def _infiniband(facts: Facts) -> list[str]:
    keys = ", ".join(f'"{key}"' for key in facts.partition_keys)
    return [
        "# What the subnet manager gives: partition keys (NCCL's first), service level. A rail can",
        '# have its own, and its subnet: pkeys: ["0x8001"], subnet_prefix: "0xfec0000000000001".',
        f"fabric_partition_keys: [{keys}]",
        "fabric_service_level: 0",
        "# Whether IPoIB's network devices are used: with addresses on the rails, they are.",
        f"fabric_ipoib: {str(bool(facts.subnet)).lower()}",
        "# wanted: the switches reduce (SHARP), which rdmaprov accept then verifies.",
        'fabric_sharp: "off"',
        "# rdmaprov subnet compares each rail with its leaf, and the switches with",
        "# fabric_spines: docs/subnet.md.",
    ]


def _rails(facts: Facts) -> list[str]:
    count = len(facts.rails)
    if not facts.rails or len(set(facts.rails)) != count:
        raise UsageError("name at least one rail, and each device once", _AGAIN)
    subnets = _subnets(facts.subnet, count)
    lines = []
    for index, device in enumerate(facts.rails):
        entry = [_named(facts.kind, device)]
        if facts.gpus:
            mine = [gpu for gpu in range(facts.gpus) if gpu * count // facts.gpus == index]
            entry.append(f"gpus: {mine or [index * facts.gpus // count]}")
        if subnets:
            base = str(subnets[index].network_address).rsplit(".", 1)[0]
            entry.append(f'address: "{base}.{{{{ node_number }}}}/24"')
        lines.append(f"  - {{{', '.join(entry)}}}")
    return lines


def _named(kind: str, device: str) -> str:
    """Return how a rail is named: by its PCI address, its network device or its RDMA device."""
    if _PCI.fullmatch(device):
        return f'pci: "{device.lower()}"'
    if not re.fullmatch(r"[\w.@-]{1,15}", device, re.ASCII):  # IFNAMSIZ
        message = f"'{device}' is no network device, PCI address or range such as ens[1:8]np0"
        raise UsageError(message, _AGAIN)
    is_rdma = kind == "infiniband" and _RDMA.fullmatch(device)
    return f"{'rdma' if is_rdma else 'netdev'}: {device}"


def _subnets(text: str, count: int) -> list[ipaddress.IPv4Network]:
    if not text:
        return []
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise UsageError(f"'{text}' is not an IPv4 network: {error}", _AGAIN) from error
    if network.prefixlen > 24 or 2 ** (24 - network.prefixlen) < count:
        raise UsageError(f"{text} is too small for {count} rails: each gets a /24", _AGAIN)
    subnets = network.subnets(new_prefix=24)
    return [next(subnets) for _ in range(count)]
