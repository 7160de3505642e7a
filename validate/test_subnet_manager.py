"""The subnet managers that the site names: configured, running, one of them the master."""

import re

import pytest
from testinfra.host import Host

from rdmaprov.facts import managers, rails, units
from rdmaprov.facts.text import read_files
from rdmaprov.inventory import Node
from rdmaprov.validate.verdict import AFTER_REBOOT, CONFIGURED, Setting, not_applicable

pytestmark = pytest.mark.state

_HOSTS = "subnet_manager_hosts"
_DIRECTORY = "/etc/opensm"
_PARTITIONS = f"{_DIRECTORY}/rdmaprov-partitions.conf"
_ROOTS = f"{_DIRECTORY}/rdmaprov-root-guids.conf"
_FIRST_PRIORITY = 14
# A line begins with NAME=0xKEY; the highest bit of a key is membership.
_KEY = re.compile(r"^[^:\n]*?=(0x[0-9a-fA-F]{1,4})\b", re.M)
_NUMBER = 0x7FFF


def test_manager_configured(host: Host, node: Node) -> None:
    """The configuration, the partitions and the root GUIDs of opensm are the site's."""
    for rail in _rails(node):
        path = f"{_DIRECTORY}/rdmaprov-rail{rail}.conf"
        files = read_files(host, path, _PARTITIONS, _ROOTS)
        seen = managers.settings(files.get(path) or "")
        for name, (value, variable) in _wanted(node).items():
            Setting(node, managers.unit(rail), name, variable, path, CONFIGURED).require(
                seen.get(name), value
            )
        _require_keys(node, _PARTITIONS, files.get(_PARTITIONS) or "")
        for variable, name, lines in (
            ("subnet_manager_partitions", _PARTITIONS, node.get("subnet_manager_partitions")),
            ("subnet_manager_root_guids", _ROOTS, node.get("subnet_manager_root_guids")),
        ):
            _require_lines(node, variable, name, lines, managers.lines(files.get(name) or ""))


def test_manager_after_reboot(host: Host, node: Node) -> None:
    """A boot starts the manager."""
    for rail in _rails(node):
        name = managers.unit(rail)
        where = f"systemctl is-enabled {name}"
        Setting(node, name, "start at boot", _HOSTS, where, AFTER_REBOOT).require(
            units.state_after_reboot(host, name), "enabled"
        )


def test_manager_running(host: Host, node: Node) -> None:
    """The manager runs, and was started with what its files say now."""
    for rail in _rails(node):
        name = managers.unit(rail)
        path = f"/etc/systemd/system/{name}"
        wanted = managers.wanted_digest(read_files(host, path), path)
        active = units.show(host, name)[name].get("ActiveState") == "active"
        seen = managers.running_digest(host, name) if active else None
        text = "not running" if not active else "started with other files"
        setting = Setting(node, name, "subnet manager", _HOSTS, f"systemctl status {name}")
        if not active or seen is None or seen != wanted:
            setting.reject(text, "running with its configuration")


def test_manager_in_the_subnet(host: Host, node: Node) -> None:
    """The subnet has the manager as planned: its priority; the first host is the master."""
    place = node.get(_HOSTS).index(node.name) if _rails(node) else 0
    for rail in _rails(node):
        device = rails.port(host, node.rails[rail]).require_rdma()
        seen = managers.state(host, device)
        where = f"sminfo -C {device}"
        look = "look, on the node: journalctl -u " + managers.unit(rail)
        if seen is None:
            Setting(node, device, "subnet manager", _HOSTS, where, look=look).reject(
                "silent", "an answer"
            )
        Setting(node, device, "priority of the subnet manager", _HOSTS, where).require(
            seen.priority, _FIRST_PRIORITY - place
        )
        wanted = "MASTER" if place == 0 else "STANDBY"
        # A standby that took over does what it is there for: the first host is at fault.
        if not (place and seen.state == "MASTER"):
            Setting(node, device, "state of the subnet manager", _HOSTS, where).require(
                seen.state, wanted
            )


def test_routing_engine_in_force(host: Host, node: Node) -> None:
    """The tables in the switches are those of one of the site's routing engines."""
    for rail in _rails(node):
        device = rails.port(host, node.rails[rail]).require_rdma()
        found = managers.state(host, device)
        if found is None or found.state != "MASTER":
            not_applicable("another manager is the master")
        engines = node.get("subnet_manager_routing_engines")
        seen = managers.engine(host, rail)
        if seen not in engines:
            path = f"/var/log/rdmaprov-opensm-rail{rail}/opensm.log"
            name = "routing engine of the last tables"
            look = f"grep -E 'ERR|tables configured' {path}"
            setting = Setting(node, device, name, "subnet_manager_routing_engines", path, look=look)
            setting.reject(seen or "none", " or ".join(engines))


def test_no_other_manager(host: Host, node: Node) -> None:
    """No other manager runs here or starts at boot: neither a package's nor one left over."""
    if not node.get(_HOSTS):
        not_applicable(f"{_HOSTS}: []")
    left = [] if node.name in node.get(_HOSTS) else [managers.unit(0)]
    for name, shown in units.show(host, *managers.PACKAGED, *left).items():
        runs = shown.get("ActiveState") in ("active", "activating")
        starts = shown.get("UnitFileState") == "enabled"
        if runs or starts:
            fix = f"systemctl disable --now {name}"
            where = f"systemctl status {name}"
            Setting(node, name, "subnet manager", _HOSTS, where, fix=fix).reject(
                "running" if runs else "enabled at boot", "none"
            )


def _require_keys(node: Node, path: str, text: str) -> None:
    """Fail unless the partition file has the number of each of the site's partition keys."""
    there = {int(each, 16) & _NUMBER for each in _KEY.findall(text)}
    for key in node.get("fabric_partition_keys") or ():
        number = int(key, 16) & _NUMBER
        if number not in there:
            Setting(node, path, "partitions", "fabric_partition_keys", path, CONFIGURED).reject(
                f"without 0x{number:04x}", "with it"
            )


def _rails(node: Node) -> list[int]:
    """Return the rails whose subnets the node manages; at least one, or the test is skipped."""
    if node.name not in (node.get(_HOSTS) or ()):
        not_applicable(f"{_HOSTS}: the node runs no subnet manager")
    return list(node.get("subnet_manager_rails"))


def _wanted(node: Node) -> dict[str, tuple[str, str]]:
    """Return each setting of opensm.conf with its value, and the variable that states it."""
    place = node.get(_HOSTS).index(node.name)
    engines = ",".join(node.get("subnet_manager_routing_engines"))
    roots = node.get("subnet_manager_root_guids")
    more = {
        str(name): (
            str(value).upper() if isinstance(value, bool) else str(value).strip(),
            "subnet_manager_settings",
        )
        for name, value in node.get("subnet_manager_settings").items()
    }
    return {
        "sm_priority": (str(_FIRST_PRIORITY - place), _HOSTS),
        **({"routing_engine": (engines, "subnet_manager_routing_engines")} if engines else {}),
        "partition_config_file": (_PARTITIONS, "subnet_manager_partitions"),
        **({"root_guid_file": (_ROOTS, "subnet_manager_root_guids")} if roots else {}),
        "sminfo_polling_timeout": (
            str(node.get("subnet_manager_polling_timeout_ms")),
            "subnet_manager_polling_timeout_ms",
        ),
        "polling_retry_number": (
            str(node.get("subnet_manager_polling_retries")),
            "subnet_manager_polling_retries",
        ),
        "qos": (str(node.get("subnet_manager_qos")).upper(), "subnet_manager_qos"),
        **more,
    }


def _require_lines(
    node: Node, variable: str, path: str, wanted: list[str], seen: list[str]
) -> None:
    """Fail unless a file has each of the site's lines; GUIDs compare as numbers."""
    if variable == "subnet_manager_root_guids":
        wanted, seen = (
            [f"{int(each, 16):#018x}" for each in wanted],
            [each.lower() for each in seen],
        )
    for line in (" ".join(each.split()) for each in wanted):
        if line not in seen:
            Setting(node, path, "its lines", variable, path, CONFIGURED).reject(
                f"without '{line}'", "with it"
            )
