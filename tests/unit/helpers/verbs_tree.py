"""A node's sysfs with one RDMA device behind a switch, made up for node/path_reader.py."""

from pathlib import Path

import pytest

from rdmaprov.acceptance.ask import nodes as nodes_module

PATH = ("0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0")


def write(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text + "\n")


class Tree:
    """A node's sysfs with one RDMA device behind a switch."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = root / "class/infiniband/mlx5_0/ports/1"
        function = root / "devices/pci0000:00" / "/".join(PATH)
        function.mkdir(parents=True)
        (self.port.parents[1] / "device").parent.mkdir(parents=True)
        (self.port.parents[1] / "device").symlink_to(function)
        write(self.port / "link_layer", "Ethernet")
        write(self.port / "rate", "400 Gb/sec (4X NDR)")
        for address in PATH:
            own = root / "bus/pci/devices" / address
            write(own / "current_link_speed", "32.0 GT/s PCIe")
            write(own / "current_link_width", "8")
            write(own / "max_link_speed", "32.0 GT/s PCIe")
            write(own / "max_link_width", "16")
            write(own / "numa_node", "1")
        write(root / "devices/system/node/node0/meminfo", "Node 0 MemTotal:  1024 kB")
        write(root / "devices/system/node/node0/cpulist", "0-3")
        write(root / "devices/system/node/node1/meminfo", "Node 1 MemTotal:  1024 kB")
        write(root / "devices/system/node/node1/cpulist", "")

    def add_gid(self, index: int, kind: str, gid: str) -> None:
        write(self.port / f"gids/{index}", gid)
        write(self.port / f"gid_attrs/types/{index}", kind)


def use(monkeypatch: pytest.MonkeyPatch, root: Path) -> Tree:
    made = Tree(root)
    original = vars(nodes_module)["node_script"]

    def script(program: Path) -> bytes:
        source: bytes = original(program)
        if program.stem == "path_reader":
            for place in ("class/infiniband", "bus/pci/devices", "devices/system/node"):
                assert f"sys/{place}".encode() in source
                for quoted in (f'"/sys/{place}', f'"sys/{place}'):
                    source = source.replace(quoted.encode(), f'"{root}/{place}'.encode())
        return source

    monkeypatch.setattr(nodes_module, "node_script", script)
    return made
