"""The rails' addresses, routes and rules on the kernel's own links, in a namespace."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases
from tests.unit.helpers.shell import execute

ROOT = Path(__file__).parents[2]
IPV4 = [
    {"netdev": "r0", "address": "198.18.0.1/24", "gateway": "198.18.0.254"},
    {"netdev": "r1", "address": "198.18.1.1/31"},
]
IPV6 = [
    {"netdev": "r0", "address": "fd00::1/64", "gateway": "fd00::ff"},
    {"netdev": "r1", "address": "FD00:1::0001/64"},
]
pytestmark = pytest.mark.program

FAMILIES = pytest.mark.parametrize("rails", [IPV4, IPV6], ids=["ipv4", "ipv6"])


@pytest.fixture(scope="session", autouse=True)
def _namespaces() -> None:
    probe = "mount -t sysfs sysfs /sys && ip link add r0 type veth peer name p0"
    done = execute(["unshare", "-rnm", "sh", "-c", probe])
    if done.returncode:
        pytest.skip(f"no network namespace with links here: {done.stderr.strip()}")


def run(rails: list[dict[str, str]], *do: list[Any]) -> list[Any]:
    argv = ["unshare", "-rnm", sys.executable, "-m", "tests.roles.kernel"]
    given = json.dumps({"rails": rails, "do": do})
    done = execute(argv, input=given, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def given(rails: list[dict[str, str]]) -> str:
    """Return a script that gives r1's address to r0 and r0's to r1."""
    return "; ".join(
        f"ip address add {rails[1 - index]['address']} dev r{index}" for index in (0, 1)
    )


def test_ipv4_rails_get_all():
    first, second, state = run(IPV4, ["apply"], ["apply"])
    assert "r0 address" in first
    assert second == []
    assert [" ".join(line.split()[::2]) for line in state if "198" in line and "/" in line][:2] == [
        "r0@p0 198.18.0.1/24",
        "r1@p1 198.18.1.1/31",
    ]
    for line in (
        "1000:\tfrom 198.18.0.1 lookup 1000 proto static",
        "default via 198.18.0.254 dev r0 proto static ",
        "198.18.1.0/31 dev r1 proto static scope link ",
        "/proc/sys/net/ipv4/conf/r1/arp_ignore:1",
    ):
        assert line in state


def test_ipv6_rails_get_all():
    _, second, state = run(IPV6, ["apply"], ["apply"])
    assert second == []
    for line in (
        "r1 fd00:1::1/64",
        "1001:\tfrom fd00:1::1 lookup 1001 proto static",
        "default via fd00::ff dev r0 proto static metric 1024 pref medium",
    ):
        assert line in state


@pytest.mark.parametrize(
    ("rails", "route"),
    cases(__file__, "router_outside_the_subnet_is_reached_over_the_link"),
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_router_outside_the_subnet_is_reached_over_the_link(rails: list[str], route: str):
    address, gateway = rails
    first, second, state = run(
        [{"netdev": "r0", "address": address, "gateway": gateway}], ["apply"], ["apply"]
    )
    assert "r0 table 1000" in first
    assert second == []
    assert any(line.startswith(route) for line in state), state


def exchanged(rails: list[dict[str, str]]) -> str:
    flush = "ip address flush dev r0 scope global; ip address flush dev r1 scope global; "
    return flush + given(rails)


def other_prefix(rails: list[dict[str, str]]) -> str:
    address = rails[0]["address"]
    return f"ip address del {address} dev r0; ip address add {address[:-2]}28 dev r0"


@FAMILIES
@pytest.mark.parametrize(
    ("script", "changes"),
    [(exchanged, ""), (lambda _: "ip link set r0 down", "r0 link"), (other_prefix, "")],
    ids=["exchanged", "down", "prefix length"],
)
def test_what_somebody_changed_is_put_right(rails: list[dict[str, str]], script, changes: str):
    _, wanted = run(rails, ["apply"])
    _, changed, again, state = run(rails, ["apply"], ["sh", script(rails)], ["apply"], ["apply"])
    assert not changes or changes in changed
    assert (again, state) == ([], wanted)


def test_rails_can_change_their_family():
    _, wanted = run(IPV6, ["apply"])
    *_, again, state = run(IPV4, ["apply"], ["apply", IPV6], ["apply", IPV6])
    assert again == []
    assert [line for line in state if "arp_ignore" not in line] == [
        line for line in wanted if "arp_ignore" not in line
    ]


@FAMILIES
def test_change_on_the_way_is_taken_back(rails: list[dict[str, str]]):
    (before, between, after), _ = run(rails, ["undo"])
    assert before == after
    assert between != before
