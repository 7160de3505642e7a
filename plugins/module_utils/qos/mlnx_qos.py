"""DCB by NVIDIA's mlnx_qos, for what iproute2's dcb cannot do. Runs on the node.

Source: Mellanox/mlnx-tools python/mlnx_qos; what it prints is in tests/fixtures/mlnx_qos.
"""

from __future__ import annotations

from ..machine import CommandFailed, Machine
from .listing import parse, unreadable
from .state import Seen

# Its last words where it can read nothing: the only way in which reading ends with an error of its
# own. The same sentence about buffers or trust alone is no such sign.
_NO_DCB = "ETS features are not supported on your system"


class MlnxQos:
    """The tool on a node."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def read(self, netdev: str) -> Seen | None:
        """Return what a port is, None if it has no DCB."""
        try:
            text = self.machine.run(["mlnx_qos", "-i", netdev, "-a"])
        except CommandFailed as error:
            if _NO_DCB in error.output:
                return None
            # Its mistakes are tracebacks, of which the last line says what happened.
            raise unreadable(netdev, error.output.rpartition("\n")[2], "a listing") from error
        return parse(text, netdev)

    def control(self, netdev: str, host: bool) -> list[list[str]]:
        """Have the host decide, or the firmware."""
        return [["mlnx_qos", "-i", netdev, "-d", "os" if host else "fw"]]

    def trust(self, netdev: str, seen: Seen, entries: list[tuple[int, int]]) -> list[list[str]]:
        """Have these entries in the map beside others; with none, trust PCP."""
        if not entries:
            return [["mlnx_qos", "-i", netdev, "--trust", "pcp"]]
        words = [f"--dscp2prio=set,{dscp},{priority}" for dscp, priority in entries]
        # It takes no --trust beside --dscp2prio. Where the driver has trust in sysfs, entries do
        # not change it; so it is asked for after them too, which does nothing where it is right.
        trust = ["mlnx_qos", "-i", netdev, "--trust", "dscp"]
        before = [] if seen.trust == "dscp" else [trust]
        return [*before, ["mlnx_qos", "-i", netdev, *words], trust]

    def pfc(self, netdev: str, pfc: tuple[bool, ...], cable_length_m: int) -> list[list[str]]:
        """Have PFC on these priorities alone, for this length of cable.

        Both in one command: before mlnx-tools 83b87d9 (2024) either alone resets the other.
        """
        on = ",".join(str(int(each)) for each in pfc)
        return [["mlnx_qos", "-i", netdev, "--cable_len", str(cable_length_m), "--pfc", on]]

    def ets(
        self, netdev: str, tsa: tuple[str, ...], percent: tuple[int, ...], classes: tuple[int, ...]
    ) -> list[list[str]]:
        """Have classes served like this."""
        words = ["--tsa", ",".join(tsa), "--tcbw", _join(percent), "--prio_tc", _join(classes)]
        return [["mlnx_qos", "-i", netdev, *words]]

    def buffers(
        self, netdev: str, priority_buffer: tuple[int, ...], buffer_bytes: tuple[int, ...]
    ) -> list[list[str]]:
        """Have receive buffers like this.

        mlx5 refuses a lossless priority in a buffer that is too small for it, so by netlink both
        go in one message. With sysfs the tool sets only the sizes when given both; the map
        follows alone, and then the sizes once more, which the former map may have forbidden.
        """
        tool = ["mlnx_qos", "-i", netdev]
        sizes = ["--buffer_size", _join(buffer_bytes)]
        to_buffers = ["--prio2buffer", _join(priority_buffer)]
        return [[*tool, *to_buffers, *sizes], [*tool, *to_buffers], [*tool, *sizes]]


def _join(values: tuple[int, ...]) -> str:
    return ",".join(str(each) for each in values)
