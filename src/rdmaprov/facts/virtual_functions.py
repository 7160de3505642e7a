"""Network devices that are virtual functions of a NIC, or scalable ones."""

from __future__ import annotations

import shlex

from rdmaprov.facts.devices import NET
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import END, whole

# Linux drivers/net/ethernet/mellanox/mlx5/core/main.c: those with MLX5_PCI_DEV_IS_VF.
_VIRTUAL = frozenset(
    f"0x15b3:0x{each}" for each in ("1012", "1014", "1016", "1018", "101a", "101c", "101e", "a2d3")
)


def is_virtual_function(host: Host, netdev: str) -> bool:
    """Return whether a network device is a virtual function or a subfunction.

    A guest sees its virtual function without the physical one: there the PCI device's number tells.
    """
    name = shlex.quote(f"{NET}/{netdev}/device")
    shown = whole(
        host.run(
            f"readlink -f {name}; ls -d {name}/physfn 2>&1; "
            f'echo "$(cat {name}/vendor):$(cat {name}/device)"; echo {END}'
        ).stdout,
        "device",
    )
    lines = shown.splitlines()
    return (
        ".sf." in shown.partition("\n")[0]
        or any(line.endswith("/physfn") and line.startswith("/") for line in lines)
        or lines[-1] in _VIRTUAL
    )
