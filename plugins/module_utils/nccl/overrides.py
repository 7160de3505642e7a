"""What counts more than /etc/nccl.conf on a node, and names that change. Runs on the node.

A job's environment does, then the file of NCCL_CONF_FILE or, where that is not set, the user's
~/.nccl.conf. [NCCL src/misc/param.cc: initEnvFunc; setenv without overwriting]
"""

from __future__ import annotations

import re
from typing import Any

from ..machine import Machine, NodeError
from ..rails import named_by
from . import conf
from .conf import Line

ENVIRONMENT = "/etc/environment"
PASSWD = "/etc/passwd"  # noqa: S105 (the file of users)
_VARIABLE = "NCCL_CONF_FILE"
_VARIABLE_SINCE = (2, 23)


def overrides(machine: Machine, wanted: dict[str, str], version: tuple[int, int]) -> list[str]:
    """Return one message for each line that gives a variable another value than our file."""
    logins = _environment(machine.read(ENVIRONMENT) or "")
    said = _different(ENVIRONMENT, logins, wanted)
    named = conf.effective(logins).get(_VARIABLE, "")
    if named and version >= _VARIABLE_SINCE:
        files = [named] if named != conf.PATH else []
    else:
        files = _of_users(machine)
    for path in files:
        try:
            said += _different(path, conf.lines(machine.read(path) or ""), wanted)
        except NodeError as error:
            said.append(f"{error}, so it is unknown whether it overrides {conf.PATH}")
    return said


def _different(path: str, found: list[Line], wanted: dict[str, str]) -> list[str]:
    return [
        f"{path}:{line.number}: sets {line.name} to {line.value}, which overrides "
        f"{conf.PATH}, expected {wanted[line.name]}: remove the line"
        for line in found
        if wanted.get(line.name, line.value) != line.value
    ]


def _environment(text: str) -> list[Line]:
    """Return the variables of a login."""
    found = []  # as Linux-PAM's pam_env.c, _parse_env_file
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, value = line.partition("#")[0].strip().partition("=")
        if equals:
            name = name[len("export ") :] if name.startswith("export ") else name
            found.append(Line(number, name.strip(), value.strip().strip("\"'")))
    return found


def _of_users(machine: Machine) -> list[str]:
    homes = [line.split(":")[5:6] for line in (machine.read(PASSWD) or "").splitlines()]
    paths = sorted({f"{home[0].rstrip('/')}/.nccl.conf" for home in homes if home and home[0]})
    # A user may have put a device or a pipe there, which would be read for ever.
    return [path for path in paths if machine.is_file(path)]


# The kernel gives a new device the first number that is free, so without one card those after it
# get other names. [Linux drivers/infiniband/core/device.c, alloc_name]
# Drivers' own patterns: "mlx5_%d", "mlx5_bond_%d", "bnxt_re%d", "irdma%d", "ionic_%d".
_COUNTED = re.compile(r"(mlx[45]_(?:bond_)?|bnxt_re(?:_bond)?|irdma|ionic_)\d+")
_BY_UDEV = "name them by udev rules (rdma_rename %k NAME_FIXED) unlike the kernel"


def warnings(arguments: dict[str, Any], there: list[str]) -> list[str]:
    """Return a message if a device that is not listed could get a listed one's name.

    Args:
        arguments: those of the role, which may list names in ib_hca or in its rails.
    """
    where, remedy = "nccl_ib_hca", "Remove nccl_ib_hca: the rails' devices are found"
    listed = arguments["ib_hca"]
    if not listed:
        where, remedy = "fabric_rails", "Write pci in place of rdma"
        listed = [named_by(each).get("rdma", "") for each in arguments["rails"]]
    counters = {_counter(name) for name in listed} - {""}
    others = [name for name in there if name not in listed and _counter(name) in counters]
    if not others:
        return []
    return [
        "{}: the kernel counts {}, and also {}: without one card, these get other names. {}, or "
        "{}".format(
            where,
            ", ".join(name for name in listed if _counter(name)),
            ", ".join(others),
            remedy,
            _BY_UDEV,
        )
    ]


def _counter(name: str) -> str:
    found = _COUNTED.fullmatch(name)
    return found[1] if found else ""
