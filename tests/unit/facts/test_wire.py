"""The commands of an exchange, in a shell, and parsers' results that are kept for equal texts."""

import random
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from tests.unit.helpers.shell import execute

from rdmaprov.facts import devices, memo, ring, wire
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import END, parse_files

NEAR = wire.RailEnd("lo", "mlx5_0", "", "127.0.0.1", 1, ("lo",))
IPV6 = wire.RailEnd("lo", "mlx5_0", "", "::1", 1, ("lo",))
# As the tools meet: at IPv4 alone; the server has no address on its command line.
MEETS = f"""#!{sys.executable}
import socket, sys
port = int(sys.argv[sys.argv.index("-p") + 1])
if "." in sys.argv[-1]:
    with socket.create_connection((sys.argv[-1], port)) as other:
        other.sendall(b"QPN 7")
        sys.exit(other.recv(9) != b"QPN 8")
with socket.create_server(("0.0.0.0", port)) as server, server.accept()[0] as other:
    sys.exit(other.recv(9) != b"QPN 7" or other.sendall(b"QPN 8"))
"""


def said(command: str) -> str:
    return execute(["/bin/sh", "-c", command], timeout=60, check=True).stdout


def test_client_tries_until_the_server_listens(tmp_path):
    third = f"sh -c 'echo try >>{tmp_path}/tries; test $(wc -l <{tmp_path}/tries) = 3'"
    assert said(wire.client_command(third)).startswith("rc 0\n")


@pytest.mark.parametrize(("program", "tries"), [("false", True), ("no-such-program", False)])
def test_client_ends_when_no_server_can_listen_any_more(monkeypatch, tmp_path, program, tries):
    monkeypatch.setattr(wire, "SERVER_S", 3)
    client = wire.client_command(f"sh -c 'echo try >>{tmp_path}/tries; {program}'")
    assert said(client).startswith("rc 1\n" if tries else "rc 127\n")
    assert (len((tmp_path / "tries").read_text().split()) > 1) is tries


def free_port() -> int:
    """Return a free port below those that connections get (ip_local_port_range: 32768 and up)."""
    for port in random.sample(range(20000, 30000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("no port is free")


@pytest.fixture
def meeting(monkeypatch, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ibv_rc_pingpong", "ib_write_bw"):
        programs.joinpath(name).write_text(MEETS)
        programs.joinpath(name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setattr(wire, "SERVER_S", 60)
    monkeypatch.setattr(wire, "_PORT", free_port())

    def commands(tool):
        if tool == "ibv_rc_pingpong":
            return wire.pingpong(IPV6, IPV6, 0, 4096)
        return wire.rdma_writes(IPV6, IPV6, 0, 4096, 106, ["lo"])

    return commands


@pytest.mark.parametrize("tool", ["ibv_rc_pingpong", "ib_write_bw"])
def test_client_that_knows_no_ipv6_reaches_a_server_there(meeting, tool):
    client, _ = meeting(tool)
    with socket.create_server(("::1", wire._PORT), family=socket.AF_INET6) as server:
        running = subprocess.Popen(["/bin/sh", "-c", client], stdout=subprocess.PIPE, text=True)
        server.settimeout(30)
        with server.accept()[0] as other:
            assert other.recv(9) == b"QPN 7"
            other.sendall(b"QPN 8")
        assert running.communicate(timeout=30)[0].startswith("rc 0\n")


@pytest.mark.parametrize("tool", ["ibv_rc_pingpong", "ib_write_bw"])
def test_server_that_knows_no_ipv6_is_reached_there(meeting, tool):
    _, server = meeting(tool)
    with subprocess.Popen(["/bin/sh", "-c", server], stdout=subprocess.PIPE, text=True) as running:
        answer = b""
        end = time.monotonic() + wire.SERVER_S
        while not answer and time.monotonic() < end:
            try:
                with socket.create_connection(("::1", wire._PORT)) as other:
                    other.sendall(b"QPN 7")
                    answer = other.recv(9)
            except OSError:
                time.sleep(0.1)
        assert answer == b"QPN 8"
        assert running.communicate(timeout=30)[0].endswith(f"{END}\n")


def test_reason_of_a_pingpong_is_its_error_and_not_its_address():
    client = (
        "rc 1\nCouldn't connect to 198.18.0.2:18700\n"
        f"  local address:  LID 0x0000, QPN 0x000069, PSN 0x37b424, GID ::\n{END}\n"
    )
    found = wire.parse_exchange(client, f"@before\n@after\n{END}\n")
    assert found.error == "Couldn't connect to 198.18.0.2:18700 (exit code 1)"


@pytest.fixture
def program(monkeypatch, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "timeout", "sleep", "touch", "ls"):
        programs.joinpath(name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(programs))

    def write(name, script):
        programs.joinpath(name).write_text(f"#!/bin/sh\n{script}")
        programs.joinpath(name).chmod(0o755)

    return write


@pytest.fixture
def ping(program):
    def found(script):
        if script:
            program("ping", script)
        return ring.parse_pings(said(ring.ping_command([(0, NEAR, "127.0.0.1")], 4200)))[0][0]

    return found


def test_ping_that_is_not_there_could_not_be_told(ping):
    with pytest.raises(CouldNotTell, match="ping is not installed"):
        ping("")


def test_ping_without_answers_ends_and_says_so(ping, monkeypatch):
    monkeypatch.setattr(ring, "PINGS_S", 1)
    last = "trap 'echo 5 packets transmitted, 0 received; exit 1' INT"
    assert ping(f"{last}\nwhile sleep 0.1; do :; done") == ring.Ping(5, 0, "")


@pytest.mark.parametrize(("rc", "silent"), [(0, set()), (1, {0}), (2, {0}), (None, set())])
def test_rail_without_any_answer_is_silent(program, rc, silent):
    """Told by ping's exit code; a ping that is not installed says nothing."""
    if rc is not None:
        program("ping", f"exit {rc}")
    assert ring.parse_reach(said(ring.reach_command([(0, NEAR, "127.0.0.1")]))) == silent


def test_rails_are_asked_side_by_side(program, tmp_path):
    """Each ping here gives up unless all of them have begun."""
    begun = tmp_path / "begun"
    begun.mkdir()
    waits = f"touch {begun}/$$; for try in $(seq 100); do"
    program("seq", 'n=0; while [ $n -lt "$1" ]; do n=$((n + 1)); echo $n; done')
    program("ping", f"{waits} set -- $(ls {begun}); [ $# = 8 ] && exit 1; sleep 0.1; done; exit 0")
    ends = [(number, NEAR, "127.0.0.1") for number in range(8)]
    assert ring.parse_reach(said(ring.reach_command(ends))) == set(range(8))


def test_ping_counts_what_it_sends(ping):
    """With a limit of its own it would count answers, and call one that is late a loss."""
    script = 'case " $* " in *" -w "*) ;; *" -c 50 "*) echo {};; *" -c 200 "*) echo {};; esac'
    lost, more = "50 packets transmitted, 49 received", "200 packets transmitted, 196 received"
    assert ping(script.format(lost, more)) == ring.Ping(200, 196, "")


@pytest.mark.parametrize("received", [50, 0])
def test_path_that_answers_all_or_nothing_is_not_pinged_again(ping, received):
    script = 'case " $* " in *" -c 50 "*) echo 50 packets transmitted, {} received;; esac'
    assert ping(script.format(received)) == ring.Ping(50, received, "")


def test_a_lost_packet_that_is_not_lost_again_is_a_stall_of_the_node(ping):
    script = 'case " $* " in *" -c 50 "*) n=49 of=50;; *) n=200 of=200;; esac\n'
    assert ping(script + 'echo "$of packets transmitted, $n received"') == ring.Ping(200, 200, "")


def counted():
    """Return a parser that keeps its results, and the texts that it was called with."""
    calls = []

    @remember
    def parse(*texts):
        calls.append(texts)
        if "bad" in texts:
            raise CouldNotTell("bad")
        return list(texts)

    return parse, calls


def test_equal_texts_are_parsed_once():
    parse, calls = counted()
    assert parse("a", "b") is parse("".join(["a"]), "b")
    assert calls == [("a", "b")]


def test_texts_that_differ_anywhere_have_their_own_results():
    parse, _ = counted()
    texts = [("ab", ""), ("a", "b"), ("", "ab"), ("ab",), ("ab", "", "")]
    assert [parse(*each) for each in texts] == [list(each) for each in texts]
    assert [parse(*each) for each in texts] == [list(each) for each in texts]


def test_error_is_raised_each_time():
    parse, calls = counted()
    for _ in range(2):
        with pytest.raises(CouldNotTell):
            parse("bad")
    assert len(calls) == 2


def test_texts_of_any_number_and_length_take_bounded_memory(monkeypatch):
    monkeypatch.setattr(memo, "_MOST_CHARACTERS", 100)
    parse, calls = counted()
    texts = [str(number) * 30 for number in range(9)]
    for text in [*texts, "x" * 1000]:
        assert parse(text) == [text]
    assert parse(texts[8]) == [texts[8]]  # the long one took the place of all
    assert len(calls) == 11
    parse(texts[7])
    parse(texts[8])
    parse(texts[6])
    parse(texts[5])  # in the place of 7, which was used before 8
    assert len(calls) == 14
    parse(texts[8])
    assert len(calls) == 14
    parse(texts[7])
    assert len(calls) == 15


def test_nodes_whose_answers_differ_in_one_character_have_their_own_devices():
    listing = f"/sys/class/net/ens1 ../../devices/pci0000:00/0000:00:04.0/net/ens1\n{END}\n"
    said = "/sys/class/net/ens1/mtu\0{}\n" + END + "\n"
    mtus = ["9000", "1500", "9000"]
    found = [devices.parse(listing, said.format(mtu), "").netdev("ens1", "mtu") for mtu in mtus]
    assert found == mtus


def test_reasons_belong_to_a_file_s_result():
    denied = "grep: /a: Permission denied\n"
    assert parse_files(f"{END}\n", denied, "/a").reasons == {"/a": "Permission denied"}
    assert parse_files(f"{END}\n", "", "/a").texts == {"/a": ""}
