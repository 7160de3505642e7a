"""A rail that is down is waited for once on each node, whatever is tried on it afterwards."""

from __future__ import annotations

import pytest
from tests.validate.runner import FakeHosts

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

    pinged = module.ping_all(reached, hosts)
    marked = module.marked_traffic(fleet, reached, hosts)
    for test, given in {
        module.test_full_packets_pass_uncut: (pinged,),
        module.test_verbs_pingpong_over_nccls_gid: (reached, hosts),
        module.test_data_stays_on_its_rail: (marked,),
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
