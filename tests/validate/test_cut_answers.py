"""Answers that are cut, empty, foreign or missing: an error, and waited for once on each node."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from testinfra.backend.base import CommandResult
from testinfra.host import Host
from tests.validate.fake_node import FakeBackend
from tests.validate.runner import FakeHosts, hosts_of, judge

from rdmaprov.facts.text import END

FOREIGN = b"<html><body>502 Bad Gateway</body></html>\n"
# Its exit status alone is the answer.
SILENT = ("test -x",)
# An error that does not say where: a parser that trusts its input.
BUGS = ("KeyError", "IndexError", "TypeError", "ValueError", "AttributeError")


@pytest.fixture(scope="module")
def learnt(suite, fleet, nodes):
    hosts = hosts_of(nodes)
    outcomes = judge(suite, fleet, hosts, only=fleet.nodes[0])
    return hosts, {outcome.test: outcome for outcome in outcomes}


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda text: text[: len(text) // 2],
    "half its lines": lambda text: text[: text.rfind(b"\n", 0, len(text) // 2) + 1],
    "no end": lambda text: text[: text.rfind(END.encode())],
    "half its end": lambda text: text[:-8],
    "empty": lambda _text: b"",
    "foreign": lambda _text: FOREIGN,
    "foreign with our end": lambda _text: FOREIGN + f"{END} 0\n".encode(),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_no_spoilt_answer_is_believed(spoil: Callable[[bytes], bytes], suite, fleet, nodes, learnt):
    hosts, healthy = learnt
    known = hosts["gpu1"].backend.known
    believed = []
    for command, result in known.items():
        tests = frozenset(name for name, each in healthy.items() if command in each.asked)
        if not tests or command.startswith(SILENT):
            continue
        text = spoil(result.stdout_bytes)
        outcomes = judged(suite, fleet, nodes, hosts, command, result, text, tests)
        believed += [
            f"{command[:80]} -> {text[-40:]!r}: {each.test} {each.state} {each.said[:120]}"
            for each in outcomes
            if command in each.asked and (each.state != "error" or each.said.startswith(BUGS))
        ]
    assert believed == []


def judged(suite, fleet, nodes, hosts, command: str, result: CommandResult, text: bytes, tests):
    known = hosts["gpu1"].backend.known
    altered = nodes["gpu1"].host({**known, command: replace(result, _stdout=text)})
    both = FakeHosts({"gpu1": altered, "gpu2": hosts["gpu2"]})
    return judge(suite, fleet, both, only=fleet.nodes[0], names=tests)


FAR = "198.18.0.2"
WAITS = ("reached", "pinged", "marked")


class CountingHosts(FakeHosts):
    """Hosts that note each command, with its node."""

    def __init__(self, *hosts):
        super().__init__(*hosts)
        self.ran: list[tuple[str, str]] = []

    def run(self, commands, time_limit_s=None):
        self.ran += commands.items()
        return super().run(commands, time_limit_s)


@pytest.fixture
def hosts(nodes, tmp_path):
    down = nodes["gpu1"].like(tmp_path / "gpu1")
    down.put(f"/.answers/ping/{FAR}:silent")
    return CountingHosts({"gpu1": down.host(), "gpu2": nodes["gpu2"].host()})


def test_silent_rail_is_waited_for_once_on_each_node(suite, fleet, hosts):
    module = suite["test_path.py"]
    reached = module.reach_all(fleet, hosts)
    asked = len(hosts.ran)
    assert [path.near.name for path in reached.silent] == ["gpu1"]
    assert sum(name == "gpu1" and FAR in text for name, text in hosts.ran) == 1

    for test, given in {
        module.test_full_packets_pass_uncut: (module.ping_all(reached, hosts),),
        module.test_verbs_pingpong_over_nccls_gid: (reached, hosts),
        module.test_data_stays_on_its_rail: (module.marked_traffic(fleet, reached, hosts),),
        module.test_rdma_cm_arrives_on_lossless_priority: (fleet, reached, hosts),
    }.items():
        with pytest.raises(AssertionError, match="gpu1 ens1"):
            test(*given)
    later = hosts.ran[asked:]
    assert later
    assert not any(name == "gpu1" and FAR in text for name, text in later)


def test_rails_are_asked_once_for_all_tests(suite):
    module = suite["test_path.py"]
    scopes = [getattr(module, name)._fixture_function_marker.scope for name in WAITS]
    assert scopes == ["module"] * 3


class DeafBackend(FakeBackend):
    def run(self, *_args, **_kwargs):
        raise TimeoutError(f"{self.root.name}: no answer within 20 s")


def test_fleet_is_judged_without_it(suite, fleet, nodes, tmp_path):
    third = replace(fleet.nodes[1], name="gpu3")
    all_nodes = replace(fleet, nodes=(*fleet.nodes, third))
    hosts = hosts_of(nodes)
    hosts["gpu3"] = Host(DeafBackend(tmp_path / "gpu3"))
    outcomes = judge(suite, all_nodes, hosts, only=third)

    assert {o.state for o in outcomes if o.target.startswith("gpu3")} <= {"error", "skipped"}
    # Of a check that does not apply, such as one of InfiniBand alone, no node is asked.
    whole = {o.test: o for o in outcomes if o.target == "fleet" and o.state != "skipped"}
    assert whole
    for outcome in whole.values():
        assert outcome.state == "error", outcome
        assert "gpu3: no answer" in outcome.said
        assert "gpu1" not in outcome.said


def test_odd_node_is_found_without_it(suite, fleet, nodes, tmp_path):
    deaf = replace(fleet.nodes[1], name="gpu3")
    older = nodes["gpu1"].like(tmp_path / "gpu1")
    older.put("/sys/class/dmi/id/bios_version", "1.9.0\n")
    hosts = FakeHosts({"gpu1": older.host(), "gpu2": nodes["gpu2"].host()})
    hosts["gpu3"] = Host(DeafBackend(tmp_path / "gpu3"))
    bios = frozenset({"test_uniformity.py::test_bios"})
    (outcome,) = judge(suite, replace(fleet, nodes=(*fleet.nodes, deaf)), hosts, names=bios)
    assert outcome.state == "failed"
    assert "gpu1 BIOS" in outcome.said
    assert "gpu3: no answer" in outcome.said
