"""The plugin's options, and the nodes that they select."""

import os
from pathlib import Path

import pytest

from rdmaprov.contract import waivers
from rdmaprov.inventory import Fleet
from rdmaprov.inventory.password_file import read_password
from rdmaprov.probe.recorded import AnyProbe
from rdmaprov.probe.session import Limits
from rdmaprov.validate.selection import (
    ALL,
    Selection,
    asked_of,
    is_specification,
    load,
    select,
    select_hosts,
    this_machine,
)

WAIVED = pytest.StashKey[list[str]]()  # not of a preloaded site, which showed them
_FLEET = pytest.StashKey[Fleet]()
_PROBE = pytest.StashKey[AnyProbe]()
_TESTINFRA_OPTIONS = (
    "connection", "ssh_config", "ssh_identity_file", "sudo", "sudo_user", "force_ansible",
)  # fmt: skip


def add_options(parser: pytest.Parser) -> None:
    """Add what testinfra's own options lack; --hosts is testinfra's."""
    group = parser.getgroup("rdmaprov")
    group.addoption(
        "--inventory",
        metavar="SITE",
        default=os.environ.get("RDMAPROV_INVENTORY", ""),
        help="Verify nodes against this inventory directory (default: RDMAPROV_INVENTORY).",
    )
    limits = Limits()
    for name, what, default_s in (
        ("--command-timeout", "a command on a node", limits.command_s),
        ("--node-timeout", "all commands of a node", limits.node_s),
    ):
        text = f"Time out {what} after S seconds (default: %(default)g)."
        group.addoption(name, metavar="S", type=float, default=default_s, help=text)
    group.addoption(
        "--vault-password-file",
        metavar="FILE",
        help="Decrypt vaulted values of the site with the password in FILE.",
    )
    group.addoption(
        "--become-password-file",
        metavar="FILE",
        help="Answer sudo with the password in FILE on nodes that have none of their own.",
    )


class Preloaded:
    """A plugin that passes on a site which this process has loaded and checked.

    Args:
        probe: what asks its nodes; None for connections of their own.
    """

    def __init__(self, fleet: Fleet, probe: AnyProbe | None = None) -> None:
        self._fleet = fleet
        self._probe = probe

    def pytest_configure(self, config: pytest.Config) -> None:
        """Pass the fleet on, and what asks its nodes."""
        config.stash[_FLEET] = self._fleet
        if self._probe is not None:
            config.stash[_PROBE] = self._probe


def is_preloaded(config: pytest.Config) -> bool:
    """Return whether a verb has started pytest, which then keeps the run itself."""
    return _FLEET in config.stash


def load_selection(config: pytest.Config) -> Selection:
    """Return the nodes that the options select from a good site.

    Raises:
        RdmaprovError: the site has a problem, or a selected host is none of its nodes.
        UsageError: pytest's, of options that lack a value or name a file that cannot be read.
    """
    site = config.getoption("inventory")
    if not site:
        raise pytest.UsageError("no site given. Pass --inventory SITE or set RDMAPROV_INVENTORY")
    os.environ["RDMAPROV_INVENTORY"] = site  # remedies name it
    hosts = ALL if config.getoption("hosts") is None else config.getoption("hosts")
    if not hosts.strip(" ,"):
        raise pytest.UsageError("--hosts is empty. Leave it out, or write --hosts=all")
    vault = config.getoption("vault_password_file")
    fleet = config.stash.get(_FLEET, None)
    if fleet is None:
        fleet, waived = load(Path(site), hosts, Path(vault) if vault else None)
        config.stash[WAIVED] = list(waivers.lines(waived))
    if is_specification(hosts):
        options = {name: config.getoption(name) for name in _TESTINFRA_OPTIONS}
        inventory = config.getoption("ansible_inventory") or str(Path(site).resolve())
        options["ansible_inventory"] = inventory
        return select_hosts(fleet, hosts, options, this_machine)
    limits = Limits(config.getoption("command_timeout"), config.getoption("node_timeout"))
    if (probe := config.stash.get(_PROBE, None)) is not None:
        return asked_of(fleet, probe, limits)
    return select(fleet, limits, _become_password(config))


def _become_password(config: pytest.Config) -> str:
    """Return sudo's password, of which an option has the name of a file alone."""
    file = config.getoption("become_password_file")
    try:
        return read_password(Path(file)) if file else ""
    except (OSError, UnicodeDecodeError) as error:
        raise pytest.UsageError(f"--become-password-file {file}: {error}") from error
