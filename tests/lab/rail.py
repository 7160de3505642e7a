"""One rail of a lab node, as the tests of the stand-in modules drive it."""

import json

from tests.tables import cases

RAIL = 1
ROOT = "/sys/kernel/standin_mlx5e"
ROCE_TOS = 106  # DSCP 26, ECT(0): priority 3 of the default map
SEND_UDP = cases(__file__, "send_udp")

REPROBE = cases(__file__, "reprobe")


# iproute2 6.1 reads before it writes, and may take the acknowledgement of the read for the
# answer to the write: its exit status says nothing then, in either direction. Tests read back.
DCB = cases(__file__, "dcb")


class Rail:
    def __init__(self, lab, node):
        self.lab = lab
        self.node = node
        self.netdev = lab.netdev(node, RAIL)
        self.address = ""  # link-local, as written on another node
        self.sysfs = f"{ROOT}/{self.netdev}"
        self.rdma = f"mlx5_{RAIL}"
        self.tclass = f"/sys/class/infiniband/{self.rdma}/tc/1/traffic_class"

    def run(self, script):
        """Return what a script prints that must succeed; $D is the netdev, $S its directory."""
        return self.lab.run(self.node, f"set -e; {self._variables()}{script}")

    def call(self, script):
        return self.lab.call(self.node, f"{self._variables()}{script}")

    def dcb(self, *objects, after="true"):
        shows = "; ".join(f"dcb -N -j {each} show dev $D; echo" for each in objects)
        lines = self.run(f"{after}\n{shows}").split("\n")
        return [json.loads(line) for line in lines if line.startswith("{")][-len(objects) :]

    def counters(self, after="true"):
        """Return the counters that `ethtool -S` lists, after a script."""
        lines = self.run(f"{{ {after}\n}} >&2\nethtool -S $D").splitlines()
        pairs = (line.rpartition(":") for line in lines)
        return {name.strip(): int(value) for name, _, value in pairs if value.strip().isdigit()}

    def _variables(self):
        return f"D={self.netdev} S={self.sysfs} R={ROOT} T={self.tclass}\n{DCB}\n"

    def power_cycle(self):
        """Give the card its factory registers."""
        self.run(
            "modprobe -r nvidia_peermem; modprobe -r standin_ofed; attached=$(cat $R/attach)\n"
            "rmmod standin_mlx5e; modprobe standin_mlx5e\n"
            "for each in $attached; do echo $each > $R/attach; done; ip link set $D up"
        )


def entries(app):
    """Return DSCP and priority of each entry; iproute2 6.15 adds a third element, a blank."""
    return [entry[:2] for entry in app.get("dscp_prio", [])]


def word_after(word, text):
    return next(line.split()[1] for line in text.splitlines() if line.startswith(word))
