"""Whether a port is of a virtual function, whose host has what belongs to the card."""

import shlex

from rdmaprov.facts.devices import INFINIBAND, NET
from rdmaprov.facts.host import Host
from rdmaprov.facts.rails import Port
from rdmaprov.facts.text import END, whole

# Linux drivers/net/ethernet/mellanox/mlx5/core/main.c: those with MLX5_PCI_DEV_IS_VF.
_VIRTUAL = frozenset(
    f"0x15b3:0x{each}" for each in ("1012", "1014", "1016", "1018", "101a", "101c", "101e", "a2d3")
)


def is_virtual_function(host: Host, port: Port) -> bool:
    """Return whether a port is of a virtual function or a subfunction.

    A guest sees its virtual function without the physical one: there the PCI device's number tells.
    """
    base = f"{NET}/{port.netdev}" if port.netdev else f"{INFINIBAND}/{port.rdma}"
    name = shlex.quote(f"{base}/device")
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
