"""The lab's switch learns, floods, carries jumbo frames and survives the loss of a machine."""

import socket
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.waits

MACS = [bytes([2, 0, 0, 0, 0, number]) for number in range(3)]
BROADCAST = b"\xff" * 6
JUMBO_BYTES = 9014
QUIET_S = 0.2


class Port:
    """One machine's end of a rail."""

    def __init__(self, directory, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(directory / name))
        self.socket.settimeout(2)
        self.switch = str(directory / "rail0")

    def send(self, destination, source, size=60):
        self.socket.sendto((destination + source + b"\x08\x00").ljust(size, b"x"), self.switch)

    def received(self):
        return len(self.socket.recv(65536))

    def is_quiet(self):
        self.socket.settimeout(QUIET_S)
        try:
            self.socket.recv(65536)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(2)
        return False


@pytest.fixture
def ports(tmp_path):
    switch = subprocess.Popen([sys.executable, "-m", "rdmaprov.lab.switch", "2", "."], cwd=tmp_path)
    while not (tmp_path / "rail1").exists():
        time.sleep(0.01)
    made = [Port(tmp_path, f"port{number}") for number in range(3)]
    for port, mac in zip(made, MACS, strict=True):  # each is heard once
        port.send(BROADCAST, mac)
    for port in made:
        while not port.is_quiet():
            pass
    yield made
    switch.kill()
    switch.wait()


@pytest.mark.parametrize("to", [BROADCAST, bytes([2, 9, 9, 9, 9, 9])], ids=["all", "unknown"])
def test_broadcast_and_frame_for_an_unknown_machine_reach_all_but_the_sender(ports, to):
    ports[0].send(to, MACS[0])
    assert [port.received() for port in ports[1:]] == [60, 60]
    assert ports[0].is_quiet()


@pytest.mark.parametrize("size", [60, JUMBO_BYTES])
def test_frame_for_a_known_machine_reaches_it_alone_and_whole(ports, size):
    ports[0].send(MACS[1], MACS[0], size=size)
    assert ports[1].received() == size
    assert ports[2].is_quiet()


def test_machine_that_moved_is_found_at_its_new_port(ports):
    ports[2].send(BROADCAST, MACS[1])
    ports[0].received()
    ports[1].received()
    ports[0].send(MACS[1], MACS[0])
    assert ports[2].received() == 60
    assert ports[1].is_quiet()


def test_loss_of_a_machine_does_not_stop_the_others(ports):
    ports[2].socket.close()
    ports[0].send(BROADCAST, MACS[0])
    ports[0].send(MACS[2], MACS[0])
    ports[0].send(MACS[1], MACS[0], size=100)
    assert [ports[1].received(), ports[1].received()] == [60, 100]


def test_machine_that_does_not_take_its_frames_does_not_stop_the_others(ports):
    for _ in range(50):  # nobody reads at port 2
        ports[0].send(MACS[2], MACS[0])
        time.sleep(0.001)
    ports[0].socket.settimeout(10)
    ports[0].send(MACS[1], MACS[0], size=100)
    ports[1].socket.settimeout(20)
    assert ports[1].received() == 100
