"""The lab as a site: who its nodes are and how to reach them, for `inventory/lab`."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from rdmaprov.errors import UsageError
from rdmaprov.lab import ssh
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab, LabNode
from rdmaprov.resources import data_dir

HOSTS_FILE = "hosts.yml"
_HEADER = "# Written by `rdmaprov lab up`, removed by `rdmaprov lab down`.\n"
GROUP = "lab"
# Rail i of node n: one subnet for each rail, from the range set aside for benchmarks (RFC 2544).
_RAIL_ADDRESS = "198.18.{rail}.{node}/24"


def default_site() -> Path:
    """Return inventory/lab of the checkout, or under the working directory for a wheel's user."""
    reference = data_dir("inventory") / "lab"
    installed = "_data" in reference.parts
    return Path.cwd() / "inventory" / "lab" if installed else reference


def rail_address(rail: int, node: int) -> str:
    """Return the address, with its prefix length, that a rail of the node is to have."""
    return _RAIL_ADDRESS.format(rail=rail, node=node)


def write(layout: Layout, lab: Lab) -> Path:
    """Write the hosts of the lab into its site and return that file.

    Raises:
        UsageError: there is a hosts file that the lab did not write.

    """
    site = Path(lab.site)
    import yaml

    hosts = site / HOSTS_FILE
    if hosts.exists() and not _is_ours(hosts):
        raise UsageError(
            f"{hosts} was not written by the lab",
            "Move it away, or name another directory: rdmaprov lab up --site DIRECTORY",
        )
    if not site.exists():
        shutil.copytree(data_dir("inventory") / "lab", site, ignore=_ignore_hosts)
    options = ssh.options(layout)
    # Quoted twice: ssh splits what the shell has left whole (a file name with a blank).
    words = [shlex.quote(f'-o{key}="{value}"') for key, value in options.items()]
    entries = {node.name: _host(number, node) for number, node in enumerate(lab.nodes, start=1)}
    group = {
        "hosts": entries,
        "vars": {
            "ansible_host": ssh.ADDRESS,
            "ansible_user": ssh.USER,
            "ansible_ssh_private_key_file": options["IdentityFile"],
            "ansible_ssh_common_args": " ".join(words),
            "ansible_python_interpreter": "/usr/bin/python3",
        },
    }
    text = yaml.safe_dump({GROUP: group}, sort_keys=False, width=1000)
    hosts.write_text(_HEADER + text)
    return hosts


def remove(lab: Lab) -> None:
    """Remove what write() wrote."""
    hosts = Path(lab.site) / HOSTS_FILE
    if hosts.exists() and _is_ours(hosts):
        hosts.unlink()


def _host(number: int, node: LabNode) -> dict[str, object]:
    rails = [
        {"netdev": rail.netdev, "address": rail_address(rail.number, number)} for rail in node.rails
    ]
    return {"ansible_port": node.port, "fabric_rails": rails}


def _is_ours(hosts: Path) -> bool:
    return hosts.read_text(errors="replace").startswith(_HEADER)


def _ignore_hosts(_directory: str, names: list[str]) -> list[str]:
    return [name for name in names if name == HOSTS_FILE]
