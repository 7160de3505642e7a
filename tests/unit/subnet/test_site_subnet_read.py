"""A fabric read from hosts: one tool on one host, those without access, several devices."""

import gzip
import os
import time

import pytest
from tests.unit.helpers.subnet_texts import HEALTHY, NO_PORT

from rdmaprov.site_subnet import tool
from rdmaprov.site_subnet.gather import gather
from rdmaprov.site_subnet.hosts import ThisMachine
from rdmaprov.site_subnet.tool import ToolOutput, failure, output_of
from rdmaprov.subnet.judge import SubnetVerdict
from rdmaprov.subnet.problem import word


class MadeUpHost:
    def __init__(self, name, **outputs):
        self.name = name
        self.outputs = outputs
        self.asked = []

    def run(self, words, _limit_s):
        self.asked.append(words)
        files = {
            "ibnetdiscover": "ibnetdiscover-p",
            "iblinkinfo": "iblinkinfo-l",
            "saquery": "saquery-smir",
        }
        own = self.outputs.get(words[0])
        if own:
            return own.pop(0) if len(own) > 1 else own[0]
        if words[0] == "perfquery":
            lid = words[words.index("-l") + 1]
            text = f"# Port counters: Lid {lid} port 1 (CapMask: 0x00)\nPortRcvErrors:.....0\n"
            return ToolOutput(text, "", 0)
        text = (HEALTHY / f"{files.get(words[0], words[0])}.txt").read_text()
        return ToolOutput(text, "", 0)


def read(tmp_path, *hosts, **more):
    return gather(hosts, more.pop("devices", []), tmp_path / "texts", **more)


def test_first_host_with_access_is_asked(tmp_path):
    lost = MadeUpHost("n1", ibnetdiscover=[ToolOutput("", NO_PORT, 255)])
    gathered = read(tmp_path, lost, MadeUpHost("n2"), MadeUpHost("n3"))
    assert gathered.host == "n2"
    assert gathered.not_read == []
    assert gathered.subnets[""].verdict is SubnetVerdict.HEALTHY


def test_hosts_without_access_are_each_named(tmp_path):
    lost = [MadeUpHost(name, ibnetdiscover=[ToolOutput("", NO_PORT, 255)]) for name in "ab"]
    gathered = read(tmp_path, *lost)
    assert (gathered.host, gathered.subnets) == ("", {})
    assert [each.part for each in gathered.not_read] == ["a", "b"]
    assert not (tmp_path / "texts").exists()


def test_tool_without_an_answer_is_one_reason(tmp_path):
    gathered = read(tmp_path, MadeUpHost("n1", dump_fts=[ToolOutput("", "", 127)]))
    assert [each.what for each in gathered.not_read] == [
        "dump_fts is not installed on n1; install infiniband-diags there"
    ]
    assert gathered.subnets[""].problems == []
    assert gathered.subnets[""].loads == {}


def test_tool_that_crashes_is_asked_again(tmp_path):
    whole = ToolOutput((HEALTHY / "ibqueryerrors.txt").read_text(), "", 0)
    host = MadeUpHost("n1", ibqueryerrors=[ToolOutput("", "Segmentation fault", 139), whole])
    assert read(tmp_path, host).not_read == []


UNANSWERED = (
    "SubnGet(LFT) failed on switch 'leaf-p1-r0' Node GUID 0x200000 SMA LID 2; MAD status 0x6e"
    " AM 0x24\n"
)


def test_switch_that_did_not_answer_is_asked_again(tmp_path):
    """Its table would lack 64 LIDs, to which it would seem to have no route."""
    whole = (HEALTHY / "dump_fts.txt").read_text()
    partial = ToolOutput(whole.replace(" : (", " # (", 20), UNANSWERED, 0)
    host = MadeUpHost("n1", dump_fts=[partial, ToolOutput(whole, "", 0)])
    gathered = read(tmp_path / "again", host)
    assert (gathered.not_read, gathered.subnets[""].verdict) == ([], SubnetVerdict.HEALTHY)
    gathered = read(tmp_path / "never", MadeUpHost("n1", dump_fts=[partial]))
    (why,) = gathered.not_read
    assert why.what.startswith("dump_fts on n1 got no answer from a switch: SubnGet(LFT) failed")
    assert gathered.subnets[""].loads == {}
    assert gathered.subnets[""].problems == []


def test_no_manager_is_a_verdict_and_no_failure(tmp_path):
    said = ToolOutput("sminfo: iberror: failed: query\n", "ibwarn: [2] mad_rpc", 255)
    gathered = read(tmp_path, MadeUpHost("n1", sminfo=[said]))
    assert gathered.not_read == []
    assert [word(each) for each in gathered.subnets[""].problems] == ["manager"]


def test_counters_are_read_twice_around_the_wait(tmp_path):
    waits = []
    host = MadeUpHost("n1")
    read(tmp_path, host, wait=lambda: waits.append(len(host.asked)))
    reads = [words[0] for words in host.asked].count("perfquery")
    assert waits == [len(host.asked) - reads // 2]
    assert {path.name for path in (tmp_path / "texts/perfquery").iterdir()} == {"1", "2"}


def test_two_devices_on_one_subnet_count_once(tmp_path):
    host = MadeUpHost("n1")
    assert list(read(tmp_path, host, devices=["mlx5_0", "mlx5_1"]).subnets) == ["mlx5_0"]
    assert ("ibnetdiscover", "-C", "mlx5_1", "-p") in host.asked
    assert (tmp_path / "texts/mlx5_1/dump_fts.txt").exists()


def test_second_device_without_access_is_not_verified(tmp_path):
    host = MadeUpHost("n1")
    host.outputs["ibnetdiscover"] = [host.run(["ibnetdiscover"], 1), ToolOutput("", NO_PORT, 255)]
    gathered = read(tmp_path, host, devices=["mlx5_0", "mlx5_1"])
    assert gathered.host == "n1"
    assert [each.part for each in gathered.not_read] == ["mlx5_1"]


def smir(*lids):
    return "".join(
        f"SMInfoRecord dump:\n\t\tRID\n\t\tLID...................{lid}\n" for lid in lids
    )


def sminfo(lid, guid, priority, state):
    number = {"STANDBY": 2, "MASTER": 3}[state]
    return ToolOutput(
        f"sminfo: sm lid {lid} sm guid {guid:#x}, activity count 9 priority {priority} state"
        f" {number} SMINFO_{state}\n",
        "",
        0,
    )


def test_other_managers_that_the_master_knows_are_asked(tmp_path):
    host = MadeUpHost(
        "n1",
        saquery=[ToolOutput(smir(1, 7, 9), "", 0)],
        sminfo=[
            sminfo(1, 0x100001, 14, "MASTER"),
            sminfo(7, 0x100003, 13, "STANDBY"),
            ToolOutput("sminfo: iberror: failed: query\n", "", 1),
        ],
    )
    subnet = read(tmp_path, host).subnets[""]
    assert [words for words in host.asked if words[0] == "sminfo"] == [
        ("sminfo",),
        ("sminfo", "7"),
        ("sminfo", "9"),
    ]
    assert [(each.lid, each.state) for each in subnet.managers] == [(1, "MASTER"), (7, "STANDBY")]
    assert (subnet.knows_managers, subnet.verdict) == (True, SubnetVerdict.HEALTHY)
    assert (tmp_path / "texts/saquery-smir.txt").exists()


def test_tool_that_tells_the_standbys_may_be_missing(tmp_path):
    gathered = read(tmp_path, MadeUpHost("n1", saquery=[ToolOutput("", "", 127)]))
    assert gathered.not_read == []
    assert not gathered.subnets[""].knows_managers
    assert not (tmp_path / "texts/saquery-smir.txt").exists()


def test_records_without_end_are_asked_within_a_bound(tmp_path):
    host = MadeUpHost("n1", saquery=[ToolOutput(smir(*range(2, 5000)), "", 0)])
    read(tmp_path, host)
    assert len([words for words in host.asked if words[0] == "sminfo"]) == 33


NO_MODULE = "ibwarn: [1] get_abi_version: can't read ABI version: is ib_umad module loaded?\n"


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def write(name, text):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    return write


def test_output_of_a_tool_is_whole_with_its_exit_code_and_errors(program):
    program("sminfo", "printf 'one\\ntwo'; echo odd >&2; exit 3")
    assert ThisMachine().run(["sminfo"], 10) == ToolOutput("one\ntwo", "odd\n", 3)


def test_words_reach_the_tool_as_they_are(program):
    program("sminfo", 'for word; do echo "$word"; done')
    words = ["$(id)", "; id", "a b"]
    assert ThisMachine().run(["sminfo", *words], 10).text.splitlines() == words


def test_tool_that_is_not_installed_is_named():
    assert failure("no-such-tool", "n1", ThisMachine().run(["no-such-tool"], 10)) == (
        "no-such-tool is not installed on n1; install infiniband-diags there"
    )


def test_tool_that_hangs_ends_with_all_that_it_started(program, tmp_path):
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    # What it starts keeps the pipe open as long as it lives.
    program("sminfo", f"exec 3>{alive}; sleep 60 & wait")
    started = time.monotonic()
    output = ThisMachine().run(["sminfo"], 0.5)
    assert failure("sminfo", "n1", output) == "sminfo on n1 gave no result: no answer within 0.5 s"
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""
    os.close(reader)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (ToolOutput("text\n", "ibwarn: x", 0), ""),
        (ToolOutput("", NO_MODULE + NO_PORT, 255), "it has none; load the module ib_umad"),
        (ToolOutput("", NO_PORT, 255), "run as root there"),
        (ToolOutput("", "Query SA failed\n", 0), "printed nothing: Query SA failed"),
        (ToolOutput("half", "a\nb\x1b[31m\n", 1), "ended with code 1: half"),
        (ToolOutput("", "n1: its name does not resolve\n", None), "n1: its name does not resolve"),
        (ToolOutput("", "no answer\n", None), "dump_fts on n1 gave no result: no answer"),
    ],
)
def test_why_a_text_is_not_the_whole_truth(output, says):
    assert says in failure("dump_fts", "n1", output)
    assert "\x1b" not in failure("dump_fts", "n1", output)
    assert bool(failure("dump_fts", "n1", output)) == bool(says)


def test_output_that_is_too_large_or_not_compressed_is_refused(monkeypatch):
    monkeypatch.setattr(tool, "MOST_TEXT_BYTES", 1000)
    with pytest.raises(ValueError, match="exceeds"):
        output_of(0, gzip.compress(b"x" * 2000), "")
    with pytest.raises(ValueError, match="not compressed"):
        output_of(0, b"plain", "")
