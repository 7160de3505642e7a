"""The lab as a site: who its nodes are and how to reach them, for `inventory/lab`."""

import shlex
import shutil
from pathlib import Path
from typing import Any

from rdmaprov.errors import UsageError
from rdmaprov.lab import shapes, ssh
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab, LabNode
from rdmaprov.lab.patience import limit_s
from rdmaprov.lab.shapes import Shape
from rdmaprov.resources import data_dir

HOSTS_FILE = "hosts.yml"
_HEADER = "# Written by `rdmaprov lab up`, removed by `rdmaprov lab down`.\n"
GROUP = "lab"
LOGIN_TIMEOUT_S = 30.0  # Ansible's is 10 s; an emulated processor takes longer to log in


def default_site() -> Path:
    """Return inventory/lab of the checkout, or under the working directory for a wheel's user."""
    reference = data_dir("inventory") / "lab"
    installed = "_data" in reference.parts
    return Path.cwd() / "inventory" / "lab" if installed else reference


def rails(shape: Shape, number: int, node: LabNode) -> list[dict[str, Any]]:
    """Return the fabric_rails of a node, which is the lab's number-th."""
    return shape.entries(number, [rail.netdev for rail in node.rails])


def write(layout: Layout, lab: Lab) -> Path:
    """Write the lab's hosts into its site, return that file; UsageError: another's is there."""
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
    kinds = shapes.of_nodes(lab.shape, len(lab.nodes))
    # A variable of each host: those of a group give way to the site's group_vars/all.yml.
    common = {"ansible_ssh_timeout": round(limit_s(LOGIN_TIMEOUT_S, layout.root))}
    entries = {
        node.name: {**common, **_host(shape, number, node)}
        for number, (shape, node) in enumerate(zip(kinds, lab.nodes, strict=True), start=1)
    }
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


def _host(shape: Shape, number: int, node: LabNode) -> dict[str, object]:
    own = {"ansible_port": node.port, "fabric_rails": rails(shape, number, node)}
    return {**own, **shape.variables}


def _is_ours(hosts: Path) -> bool:
    return hosts.read_text(errors="replace").startswith(_HEADER)


def _ignore_hosts(_directory: str, names: list[str]) -> list[str]:
    return [name for name in names if name == HOSTS_FILE]
