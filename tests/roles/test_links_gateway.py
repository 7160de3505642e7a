"""Routers that are reached over the link, by each link manager."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from plugins.module_utils.links import Addressing, Links
from plugins.module_utils.plan import Refused
from tests.roles.fake import FakeMachine
from tests.roles.links_node import (
    STATE,
    apply,
    one_rail,
    with_ifupdown,
    with_network_manager,
    with_networkd,
)


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    return one_rail(machine)


def with_networkd_that_reads(node: FakeMachine) -> None:
    own = "/etc/systemd/network/20-rdmaprov-ens1.network"
    with_networkd(node)

    def reload(_: list[str]) -> str:
        node.put(STATE, f"NETWORK_FILE={own}\n")
        return ""

    node.programs["networkctl reload"] = reload


ON_LINK = Addressing("198.18.0.1/32", "169.254.0.1", 1000, 1001)
OTHER_FAMILY = Addressing("198.18.0.1/32", "fe80::1", 1000, 1001)


@pytest.mark.parametrize(
    ("with_manager", "wanted", "lines"),
    [
        (with_networkd_that_reads, ON_LINK, "Gateway=169.254.0.1\nTable=1000\nGatewayOnLink=yes\n"),
        (
            with_networkd_that_reads,
            OTHER_FAMILY,
            "Destination=0.0.0.0/0\nGateway=fe80::1\nTable=1000\n",
        ),
        (
            with_network_manager,
            ON_LINK,
            "route1=0.0.0.0/0,169.254.0.1\nroute1_options=table=1000,onlink=true\n",
        ),
        (
            with_ifupdown,
            ON_LINK,
            "up ip -4 route replace default via 169.254.0.1 dev ens1 table 1000 proto static "
            "onlink\n",
        ),
        (
            with_ifupdown,
            OTHER_FAMILY,
            "up ip -4 route replace default via inet6 fe80::1 dev ens1 table 1000 proto static\n",
        ),
    ],
)
def test_router_is_reached_over_the_link(
    node: FakeMachine, with_manager: Callable[..., None], wanted: Addressing, lines: str
):
    with_manager(node)
    apply(node, wanted=wanted)
    manager = Links(node, "auto").of("ens1")
    text = node.read(manager.fabric_file("ens1")) or ""
    assert lines in text
    # The address has no subnet, so no route leads to one.
    assert "198.18.0.1/32" in text
    assert "Destination=198" not in text
    assert "replace 198" not in text


def test_router_of_the_other_family_needs_a_manager_that_has_such(node: FakeMachine):
    with_network_manager(node)
    with pytest.raises(Refused, match=r"rail 0: NetworkManager has no IPv6 router \(fe80::1\)"):
        apply(node, wanted=OTHER_FAMILY)
