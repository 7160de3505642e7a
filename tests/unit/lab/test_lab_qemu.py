"""A machine's command line, and an agent inside a node that does not answer."""

import socket
from pathlib import Path

import pytest

from rdmaprov.errors import UnreachableError
from rdmaprov.lab import monitor, qemu, virtual_machines
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.image import ImageStore
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab, new_node
from rdmaprov.lab.process import Daemon
from rdmaprov.lab.virtual_machines import Machines


def argv(accel=Accel.TCG, rails=2):
    return qemu.Machine(
        node=new_node("node1", 40001, rails),
        directory=Path("nodes/node1"),
        accel=accel,
        memory_mib=2048,
        torch_disk=Path("/cache, mine/torch.img"),
        authorized_keys=Path("/lab/id.pub"),
        host_key=Path("/lab/key"),
        switch=Path("switch"),
    ).argv()


def test_port_listens_on_the_loopback_address_only():
    forwards = [word for word in argv() if "hostfwd" in word]
    assert forwards == ["user,id=mgmt,hostfwd=tcp:127.0.0.1:40001-:22"]


def test_port_taken_meanwhile_is_replaced(monkeypatch, tmp_path):
    """The machine is one that ends as QEMU does if another program has the port."""
    said: list[str] = []
    made = Machines(Layout(tmp_path, tmp_path), ImageStore(tmp_path, said.append), said.append)
    node = new_node("node1", 40001, 2)
    lab = Lab("bookworm", 1024, Accel.TCG, "image", "torch", str(tmp_path), (node,))
    made.layout.node("node1").mkdir(parents=True)
    tried: list[str] = []

    def start(_daemon, argv, cwd, log):
        assert cwd == tmp_path
        tried.append(next(word for word in argv if "hostfwd" in word))
        log.write_text(
            f"{virtual_machines.PORT_TAKEN} 'tcp:{node.port}'\n" if len(tried) == 1 else ""
        )

    monkeypatch.setattr(Daemon, "start", start)
    monkeypatch.setattr(Machines, "_ensure_disk", lambda _self, lab, _name: lab)
    monkeypatch.setattr(Machines, "_wait_for_monitor", lambda *_: len(tried) == 2)
    lab = made._start(lab, node, None)
    assert lab.node("node1").port != 40001
    assert f":{lab.node('node1').port}-:22" in tried[1]
    assert said == [
        f"node1: port 40001 is in use by another program; taking {lab.node('node1').port}"
    ]
    assert Lab.load(made.layout.state) == lab


def test_comma_in_a_path_does_not_end_it():
    assert any("file=/cache,, mine/torch.img," in word for word in argv())


@pytest.mark.parametrize(("accel", "processors"), [(Accel.KVM, "2"), (Accel.TCG, "1")])
def test_numa_nodes_are_two_and_processors_as_many_as_are_safe(accel, processors):
    words = argv(accel)
    assert words[words.index("-smp") + 1].split(",")[0] == processors
    assert len([word for word in words if word.startswith("node,nodeid=")]) == 2


@pytest.mark.parametrize("rails", [1, 2, 8])
def test_rails_are_spread_over_the_numa_nodes(rails):
    bridges = [word for word in argv(rails=rails) if word.startswith("pxb-pcie")]
    numa = [word.partition("numa_node=")[2][0] for word in bridges]
    assert numa == ["0" if 2 * rail < rails else "1" for rail in range(rails)]


def test_node_without_an_agent_is_unreachable(tmp_path):
    with pytest.raises(UnreachableError, match="node1 does not answer"):
        monitor.run_inside("node1", tmp_path, "true", timeout_s=1)


def test_agent_that_says_nothing_is_unreachable(tmp_path):
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(str(tmp_path / "agent.sock"))
    silent.listen()
    with pytest.raises(UnreachableError, match="node1 does not answer"):
        monitor.run_inside("node1", tmp_path, "true", timeout_s=0.2)
