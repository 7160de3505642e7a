"""What opensm is told: its configuration, partitions and root GUIDs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ..plan import Refused
from ..rails import FULL, NUMBER, partition_key
from .port import Port

DIRECTORY = "/etc/opensm"
PARTITIONS = f"{DIRECTORY}/rdmaprov-partitions.conf"
ROOTS = f"{DIRECTORY}/rdmaprov-root-guids.conf"
HEADER = "# Written by rdmaprov (subnet_manager); changes here are lost.\n"
# The first manager's. 15, the highest, stays free for a manager that has to take over by hand; our
# choice. InfiniBand Architecture 1.5, 14.2.5.13: SMInfo's Priority has four bits.
FIRST_PRIORITY = 14
# [opensm doc/partition-config.txt] What opensm does without a file: every port is a full member.
_DEFAULT = 0x7FFF
_KEY = re.compile(r"^[^:]*?=(0x[0-9a-fA-F]{1,4})\b", re.M)
_DEFAULT_PARTITION = "Default=0x7fff, ipoib : ALL=full;"
_GUID = re.compile(r"0x[0-9a-fA-F]{1,16}")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_WORD = re.compile(r"[\w.=-]+")


@dataclass(frozen=True)
class Settings:
    """What every manager of a site is told, but for its port and its priority."""

    engines: tuple[str, ...]  # routing engines, in the order in which opensm tries them
    roots: tuple[int, ...]
    partitions: tuple[str, ...]  # lines of a partition file, which count before the keys
    keys: tuple[int, ...]  # partition keys; the highest bit is full membership
    lines: dict[str, str]  # settings of opensm.conf by name

    def partitions_text(self) -> str:
        """Return the partition file."""
        written = {int(each, 16) & NUMBER for each in _KEY.findall("\n".join(self.partitions))}
        lines = [] if _DEFAULT in written else [_DEFAULT_PARTITION]
        lines += [_line(key) for key in self.keys if key & NUMBER not in {*written, _DEFAULT}]
        lines += self.partitions
        return HEADER + "".join(f"{line}\n" for line in lines)

    def roots_text(self) -> str:
        """Return the file of root GUIDs."""
        return HEADER + "".join(f"{guid:#018x}\n" for guid in self.roots)

    def text(self, port: Port, priority: int, prefix: str) -> str:
        """Return opensm's configuration for a port; what it does not set has opensm's default."""
        logs = f"/var/log/{unit_name(port.rail)}"
        lines = {
            "guid": f"{port.guid:#018x}",
            "sm_priority": str(priority),
            "routing_engine": ",".join(self.engines),
            "partition_config_file": PARTITIONS,
            **({"root_guid_file": ROOTS} if self.roots else {}),
            **({"subnet_prefix": prefix} if prefix else {}),
            "log_file": f"{logs}/opensm.log",
            "dump_files_dir": f"{logs}/",
            **self.lines,
        }
        return HEADER + "".join(f"{name} {value}\n" for name, value in lines.items() if value)

    def digest(self, text: str) -> str:
        """Return what tells a configuration, with the files that it names, from any other.

        Not by its GUID: that is compared itself, as a record of a node may have another one.
        """
        lines = [line for line in text.splitlines() if not line.startswith("guid ")]
        whole = "\0".join([*lines, self.partitions_text(), self.roots_text()])
        return sha256(whole.encode()).hexdigest()[:16]


def unit_name(rail: int) -> str:
    """Return the name of a manager's unit, without its type."""
    return f"rdmaprov-opensm-rail{rail}"


def configuration(rail: int) -> str:
    """Return the path of a manager's configuration."""
    return f"{DIRECTORY}/rdmaprov-rail{rail}.conf"


def parse(arguments: dict[str, Any]) -> Settings:
    """Return the settings of a site; raise Refused if a value is not in opensm's form."""
    lines = {
        "sminfo_polling_timeout": str(arguments["polling_timeout_ms"]),
        "polling_retry_number": str(arguments["polling_retries"]),
        "log_max_size": str(arguments["log_max_mb"]),
        "qos": "TRUE" if arguments["qos"] else "FALSE",
    }
    for name, value in arguments["settings"].items():
        lines[_setting(str(name), lines)] = _value(str(name), value)
    return Settings(
        tuple(_word(name, "subnet_manager_routing_engines") for name in arguments["engines"]),
        tuple(guid(each, "subnet_manager_root_guids") for each in arguments["root_guids"]),
        tuple(_partition(each) for each in arguments["partitions"]),
        tuple(_keys(arguments)),
        lines,
    )


def guid(text: str, variable: str) -> int:
    """Return a GUID; raise Refused if the text is no GUID."""
    if not _GUID.fullmatch(text):
        raise Refused(f"{variable}: '{text}' is no GUID; write it as '0x' and up to 16 digits")
    return int(text, 16)


def _keys(arguments: dict[str, Any]) -> Iterator[int]:
    """Yield the partition keys of the site, and of rails whose subnets are managed, each once."""
    rails = arguments["rails"]
    own = [
        rails[rail].get("pkeys") or [] for rail in arguments["subnet_rails"] if rail < len(rails)
    ]
    texts = [str(key) for keys in [arguments["partition_keys"], *own] for key in keys]
    for text in dict.fromkeys(texts):
        key = partition_key(text)
        if key is None:
            raise Refused(f"fabric_partition_keys: '{text}' is no partition key")
        yield key


def _line(key: int) -> str:
    member = "full" if key & FULL else "limited"
    return f"partition{key & NUMBER}=0x{key & NUMBER:04x}, ipoib : ALL={member};"


def _setting(name: str, ours: dict[str, str]) -> str:
    taken = {
        *ours,
        "guid",
        "sm_priority",
        "routing_engine",
        "partition_config_file",
        "root_guid_file",
        "subnet_prefix",
        "log_file",
        "dump_files_dir",
        "daemon",
    }
    if name in taken:
        raise Refused(f"subnet_manager_settings: {name} is the role's own; use its variable")
    if not _NAME.fullmatch(name):
        raise Refused(f"subnet_manager_settings: '{name}' is no setting of opensm.conf")
    return name


def _value(name: str, value: object) -> str:
    text = str(value).upper() if isinstance(value, bool) else str(value).strip()
    if not text or not text.isprintable():
        raise Refused(f"subnet_manager_settings: {name} needs a text of one line")
    return text


def _word(text: str, variable: str) -> str:
    if not _WORD.fullmatch(text):
        raise Refused(f"{variable}: '{text}' is no name")
    return text


def _partition(text: str) -> str:
    line = text.strip()
    if not line.isprintable() or not re.fullmatch(r"[^#;:]+:[^#;:]+;", line):
        raise Refused(
            f"subnet_manager_partitions: '{text}' is no line of a partition file; write for "
            "example 'compute=0x8001, ipoib : ALL=full;'"
        )
    return line
