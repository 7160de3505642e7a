"""The sampler on a node: it reads what is there, always ends, and its file stays small."""

import ast
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest
from tests.unit.helpers.waiting import until

from rdmaprov import acceptance, node
from rdmaprov.acceptance.samples.packed import MOST_PACKED, parse_samples
from rdmaprov.node import kept_counters
from rdmaprov.probe.script import node_script

PROGRAM = Path(acceptance.__file__).parent / "node/sampler.py"
SOURCES = (PROGRAM, Path(node.__file__).parent / "kept_counters.py")
BYTES = Path("/sys/class/net/lo/statistics/tx_bytes")


def loaded() -> ModuleType:
    module = ModuleType("sampler")
    source = PROGRAM.read_text(encoding="utf-8")
    assert source.endswith("\nmain()\n")
    exec(compile(source.removesuffix("main()\n"), str(PROGRAM), "exec"), module.__dict__)  # noqa: S102
    return module


@pytest.fixture
def start(tmp_path):
    started = []
    program = tmp_path / "sampler.py"
    program.write_bytes(node_script(PROGRAM))

    def begin(netdevs=("lo",), every_s=0.01, limit_s=60.0, around=()):
        request = {
            "rails": [{"netdev": name, "pci": ""} for name in netdevs],
            "every_s": every_s,
            "limit_s": limit_s,
        }
        words = [*around, sys.executable, "-I", str(program), str(tmp_path), json.dumps(request)]
        started.append(subprocess.Popen(words))
        return started[-1]

    yield begin
    for each in started:
        each.kill()
        each.wait()


def samples(directory, rails=1):
    return parse_samples((directory / "samples.gz").read_bytes(), rails)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_sampler_needs_no_python_newer_than_3_6(path):
    assert ast.parse(path.read_text(), feature_version=(3, 6)).body


def test_counters_grow_as_the_kernel_counts_them(start, tmp_path):
    before = int(BYTES.read_text())
    process = start(["lo", "no-such-device"])
    assert until(lambda: str(BYTES.resolve()) in _open_files(process.pid))
    reads = _reads(process.pid)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
    ):

        def push():
            one.sendall(b"x" * 20_000)
            other.recv(1 << 20)
            return _reads(process.pid) > reads + 100

        assert until(push)
    (tmp_path / "samples.stop").touch()
    assert process.wait(20) == 0
    after = int(BYTES.read_text())
    fast = samples(tmp_path, 2).fast
    assert len(fast.ends_s) >= 5
    assert 20_000 <= fast.total(0, "netdev.tx_bytes") <= after - before
    assert fast.column(0, "carrier_changes") is not None
    assert fast.total(0, "down") == 0
    assert fast.column(1, "netdev.tx_bytes") is None
    assert fast.total(1, "down") == len(fast.ends_s)
    assert not list(tmp_path.glob("*.new"))


def _open_files(pid: int) -> set[str]:
    found = set()
    for each in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):
            found.add(str(each.readlink()))
    return found


def _reads(pid: int) -> int:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("syscr:")).split()[1])


def test_sampler_ends_with_a_signal_and_writes_what_it_has(start, tmp_path):
    process = start()
    assert until(lambda: b"sampler.py" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
    assert until(lambda: _catches(process.pid, signal.SIGTERM))
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert samples(tmp_path).lasted_s > 0


def _catches(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)


def test_sampler_ends_with_its_time_limit(start, tmp_path):
    assert start(limit_s=0.1).wait(20) == 0
    assert samples(tmp_path).lasted_s < 20


def test_sampler_does_not_outlive_who_started_it(start, tmp_path):
    shell = start(around=["/bin/sh", "-c", '"$@" & echo $! > "$4/pid"; sleep 600', "x"])
    pid = tmp_path / "pid"
    assert until(lambda: pid.exists() and pid.read_text().strip())
    sampler = int(pid.read_text())
    assert until(lambda: _catches(sampler, signal.SIGTERM))
    shell.kill()
    shell.wait()
    assert until(lambda: not _is_alive(sampler))


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_table_keeps_all_that_was_counted_when_it_grows_coarser():
    sampler = loaded()
    table = sampler.CounterTable(0.1, ["0/x", "0/y"])
    rows = 3 * sampler.MOST_ROWS
    for tick in range(rows + 1):
        table.add(tick * 100_000, [7 * tick, None if tick % 2 else tick])
    assert len(table.rows[0]) < sampler.MOST_ROWS
    assert table.every_s > 0.1
    assert sum(table.rows[0]) == rows * 100_000
    assert sum(table.rows[1]) == 7 * rows
    assert sum(table.rows[2]) == rows


def test_counter_that_is_set_back_grows_by_nothing():
    table = loaded().CounterTable(0.1, ["0/x"])
    for count in (100, 110, 5, 8):
        table.add(0, [count])
    assert list(table.rows[1]) == [10, 0, 3]


def test_file_of_sixteen_rails_that_count_at_random_is_small_enough(tmp_path):
    sampler = loaded()
    made = sampler.Sampler({"rails": [], "every_s": 0.1})
    names = [f"{rail}/counters.{way}" for rail in range(16) for way in ("a", "b", "c")]
    table = made.tables[0] = sampler.CounterTable(0.1, names)
    total = [0] * len(names)
    for tick in range(3000):
        total = [count + int.from_bytes(os.urandom(4), "little") for count in total]
        table.add(tick * 100_000, total)
    sampler.write(str(tmp_path), made)
    assert (tmp_path / "samples.gz").stat().st_size <= sampler.MOST_PACKED <= MOST_PACKED
    node = samples(tmp_path, 16)
    assert len(node.fast.ends_s) > 500
    assert sum(node.fast.column(3, "counters.b") or ()) == pytest.approx(total[10], rel=0.01)


class Network:
    """A kernel that answers ethtool's questions about one device."""

    names = ("rx_packets", "tx_prio3_pause_duration", "rx_discards_phy", "tx_bytes_phy")

    def ioctl(self, _file, number, request):
        import ctypes
        import struct

        assert number == kept_counters.SIOCETHTOOL
        name, pointer = struct.unpack("16sP16x", request)
        if name.rstrip(b"\0") != b"ens1":
            raise OSError(19, "No such device")
        asked = struct.unpack("=I", ctypes.string_at(pointer, 4))[0]
        size = len(self.names)
        if asked == kept_counters.GSSET_INFO:
            answer = struct.pack("=IIQI", asked, 0, 1 << kept_counters.SET_STATS, size)
        elif asked == kept_counters.GSTRINGS:
            texts = b"".join(each.encode().ljust(32, b"\0") for each in self.names)
            answer = struct.pack("=III", asked, kept_counters.SET_STATS, size) + texts
        else:
            assert asked == kept_counters.GSTATS
            answer = struct.pack(f"=II{size}Q", asked, size, *range(100, 100 + size))
        ctypes.memmove(pointer, answer, len(answer))


def test_ethtool_counters_are_asked_of_the_kernel(monkeypatch):
    monkeypatch.setattr("rdmaprov.node.kept_counters.fcntl.ioctl", Network().ioctl)
    found = kept_counters.Ethtool("ens1")
    assert found.names == ["tx_prio3_pause_duration", "rx_discards_phy", "tx_bytes_phy"]
    assert found.counts() == [101, 102, 103]
    with pytest.raises(OSError, match="No such device"):
        kept_counters.Ethtool("ens2")


def test_link_is_down_while_its_file_cannot_be_read(tmp_path):
    carrier = tmp_path / "carrier"
    link = kept_counters.LinkState(str(carrier), b"1")
    assert link.count() == 1
    carrier.write_text("1\n")
    assert link.count() == 1
    carrier.write_text("0\n")
    assert link.count() == 2
