"""A node's rails: that it fits, addresses, ARP and source routing. Runs on the node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .. import guard
from ..fabric import fit
from ..fabric.addresses import plan_addresses
from ..fabric.arp import plan_arp
from ..fabric.ipoib import mode_of, plan_mode
from ..fabric.partition import plan_partitions, require_used
from ..fabric.routing import plan_routing, table_of
from ..links import Addressing, Links
from ..machine import Machine
from ..plan import NotYet, Plan, Refused
from ..rails import Rail, find, require_netdevs

# Before the rule that leads to the table `main`, 32766, and after what container networks use.
RULE_PRIORITY = 1000


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for every rail to be reached, and to answer by itself.

    Raises:
        Refused: the node does not fit.
        NotYet: a rail's device is not there.
    """
    plan = Plan(machine)
    rails = find(machine, arguments["rails"])
    require_used(rails, arguments)
    fit.require(machine, rails, arguments)
    if arguments["kind"] == "infiniband" and not arguments["ipoib"]:
        _require_rdma(rails)
        return plan
    require_netdevs(rails)
    addressed = [(rail, _addressing(rail, arguments)) for rail in rails]
    routed = [(rail, each) for rail, each in addressed if each.table]
    links = Links(machine, arguments["link_manager"])
    plan_partitions(plan, rails)
    plan_mode(plan, rails, mode_of(arguments))
    plan_addresses(
        plan,
        rails,
        {each.netdev: links.of(each.port).own_addresses(each.netdev) for each in rails},
    )
    plan_routing(plan, routed)
    plan_arp(
        plan, [rail for rail, each in routed if each.family == "-4"], arguments["neighbor_entries"]
    )
    touched = [*rails, *(replace(each, netdev=each.parent) for each in rails if each.parent)]
    guard.require(plan, touched, arguments)
    _plan_links(plan, addressed, links)
    guard.require(plan, touched, arguments)
    for netdev in {rail.netdev for rail in rails}.intersection(plan.guarded):
        links.of(netdev).require_kept(netdev)
    if not plan.steps:
        _require_rdma(rails)
    return plan


def _addressing(rail: Rail, arguments: dict[str, Any]) -> Addressing:
    if not rail.address or not arguments["source_routing"]:
        if rail.gateway:
            raise Refused(
                f"rail {rail.index}: a gateway ({rail.gateway}) is only used with an address and "
                "fabric_source_routing: true. Remove it or write those"
            )
        return Addressing(rail.address, ipoib_mode=mode_of(arguments))
    return Addressing(
        rail.address,
        rail.gateway,
        table_of(rail, arguments["routing_table_base"]),
        RULE_PRIORITY + rail.index,
        mode_of(arguments),
    )


def _plan_links(plan: Plan, addressed: list[tuple[Rail, Addressing]], links: Links) -> None:
    links.leftovers(plan, [rail for rail, _ in addressed])
    for rail, wanted in addressed:
        links.of(rail.port).address(plan, rail, wanted)
    links.settle(plan)


def _require_rdma(rails: list[Rail]) -> None:
    """Raise NotYet for a rail without an RDMA device, once all else is right."""
    for rail in rails:
        if not rail.rdma:
            raise NotYet(
                f"rail {rail.index}: there is no RDMA device on {rail.netdev} "
                "(/sys/class/infiniband). Is its driver loaded? Run on the node: rdma link"
            )
