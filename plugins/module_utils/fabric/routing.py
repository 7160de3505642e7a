"""The routes and rules by which a node answers on the rail that was asked. Runs on the node.

Each rail has a table with its subnet and its router, and a rule that leads there from its address.
The kernel looks a RoCE connection's way up with its GID's address as source, so it goes there too
(Linux drivers/infiniband/core/addr.c, addr4_resolve).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..links import Addressing
from ..machine import CommandFailed, Machine
from ..plan import RUNNING, Change, Plan, Refused
from ..rails import Rail

# Linux include/uapi/linux/rtnetlink.h: RT_TABLE_UNSPEC, _DEFAULT, _MAIN, _LOCAL
KERNELS_TABLES = (0, 253, 254, 255)
# As the link managers have it: a rule that differs in this would stand beside theirs.
_STATIC = ("protocol", "static")
_ONLY_SOURCE = {"priority", "src", "srclen", "table", "protocol", "flags"}


@dataclass(frozen=True)
class Route:
    """A route of a table."""

    to: str  # the subnet, or "default"
    gateway: str  # empty for what is on the link
    netdev: str
    on_link: bool = False  # whether the gateway is called reachable, though no subnet holds it

    def words(self, table: int) -> list[str]:
        """Return it in ip's words."""
        family = ["inet6"] if ":" in self.gateway and ":" not in self.to else []
        via = ["via", *family, self.gateway] if self.gateway else []
        flags = ["onlink"] if self.on_link else []
        return [self.to, *via, "dev", self.netdev, "table", str(table), "proto", "static", *flags]

    def __str__(self) -> str:
        """Return it as a message says it."""
        via = f" via {self.gateway}" if self.gateway else ""
        return f"{self.to}{via} dev {self.netdev}"


def table_of(rail: Rail, base: int) -> int:
    """Return a rail's routing table; raise Refused if it is the kernel's own."""
    table = base + rail.index
    if table in KERNELS_TABLES:
        raise Refused(
            f"rail {rail.index}: routing table {table} belongs to the kernel "
            "(fabric_routing_table_base). Write 1000"
        )
    return table


def plan_routing(plan: Plan, routed: list[tuple[Rail, Addressing]]) -> None:
    """Add the steps after which each rail's table and rule are as they must be.

    Raises:
        Refused: such a table has routes of other devices.
    """
    ours = {rail.netdev for rail, _ in routed}
    for rail, wanted in routed:
        _plan_routes(plan, rail, wanted, ours)
    if routed:
        # Both families: what had an address of the other one before may have a rule of it.
        for family in ("-4", "-6") if plan.machine.exists("/proc/net/if_inet6") else ("-4",):
            _plan_rules(plan, family, routed)


def _rail_routes(rail: Rail, wanted: Addressing) -> list[Route]:
    routes = [Route(wanted.network, "", rail.netdev)] if wanted.network else []
    if wanted.gateway:
        routes.append(Route("default", wanted.gateway, rail.netdev, wanted.is_on_link))
    return routes


def _plan_routes(plan: Plan, rail: Rail, wanted: Addressing, ours: set[str]) -> None:
    routes = _rail_routes(rail, wanted)
    seen = _routes(plan.machine, wanted)
    for route in seen:
        if route.netdev not in ours:
            raise Refused(
                f"routing table {wanted.table} has a route of another device: {route} (ip "
                f"{wanted.family} route show table {wanted.table}). "
                "Write another fabric_routing_table_base"
            )
    ip = ["ip", wanted.family, "route"]
    for route in seen:
        if route.to not in [each.to for each in routes]:
            words = route.words(wanted.table)
            change = Change(RUNNING, rail.netdev, f"table {wanted.table}", str(route), "no route")
            plan.command(change, [*ip, "del", *words], [[*ip, "replace", *words]])
    for route in routes:
        if route in seen:
            continue
        words = route.words(wanted.table)
        before = [each for each in seen if each.to == route.to]
        undo = [[*ip, "replace", *each.words(wanted.table)] for each in before]
        said = "; ".join(str(each) for each in before) or "no route"
        change = Change(RUNNING, rail.netdev, f"table {wanted.table}", said, str(route))
        plan.command(change, [*ip, "replace", *words], undo or [[*ip, "del", *words]])


def _routes(machine: Machine, wanted: Addressing) -> list[Route]:
    argv = ["ip", "-N", "-j", wanted.family, "route", "show", "table", str(wanted.table)]
    try:
        shown = json.loads(machine.run(argv) or "[]")
    except CommandFailed as error:
        if "table does not exist" in error.output:
            return []  # a table without routes is none
        raise
    return [_route(entry) for entry in shown]


def _route(entry: dict[str, Any]) -> Route:
    """Return a route as ip shows it; a router of the other family is shown as `via`."""
    gateway = entry.get("gateway") or (entry.get("via") or {}).get("host", "")
    netdev = str(entry.get("dev", ""))
    return Route(
        str(entry.get("dst", "")), str(gateway), netdev, "onlink" in entry.get("flags", [])
    )


def _plan_rules(plan: Plan, family: str, routed: list[tuple[Rail, Addressing]]) -> None:
    seen = _rules(plan.machine, family)
    ours = [each for _, each in routed if each.family == family]
    wanted = {(each.priority, each.host, each.table) for each in ours}
    netdevs = {each.table: rail.netdev for rail, each in routed}
    ip = ["ip", family, "rule"]
    for rule in seen:
        if rule[2] in netdevs and rule not in wanted:
            words = _rule_words(rule)
            change = Change(RUNNING, netdevs[rule[2]], "rule", _said(rule), "no rule")
            plan.command(change, [*ip, "del", *words], [[*ip, "add", *words, *_STATIC]])
    for rule in sorted(wanted - set(seen)):
        words = _rule_words(rule)
        change = Change(RUNNING, netdevs[rule[2]], "rule", "no rule", _said(rule))
        plan.add(change, partial(_add_rule, plan.machine, family, rule), [[*ip, "del", *words]])


def _add_rule(machine: Machine, family: str, rule: tuple[int, str, int]) -> None:
    """Add a rule; the node's link manager may have done so when the link came up before."""
    try:
        machine.run(["ip", family, "rule", "add", *_rule_words(rule), *_STATIC])
    except CommandFailed:
        if rule not in _rules(machine, family):
            raise


def _rules(machine: Machine, family: str) -> list[tuple[int, str, int]]:
    """Return priority, source and table of the rules that only look at the source."""
    shown = json.loads(machine.run(["ip", "-N", "-j", family, "rule", "show"]) or "[]")
    return [_rule(entry) for entry in shown if set(entry) <= _ONLY_SOURCE]


def _rule(entry: dict[str, Any]) -> tuple[int, str, int]:
    source = str(entry.get("src", "all"))
    length = f"/{entry['srclen']}" if "srclen" in entry else ""
    table = str(entry.get("table", "0"))
    named = {"local": 255, "main": 254, "default": 253}
    number = int(table) if table.isdigit() else named.get(table, 0)
    return (int(entry.get("priority", 0)), source + length, number)


def _rule_words(rule: tuple[int, str, int]) -> list[str]:
    return ["from", rule[1], "lookup", str(rule[2]), "priority", str(rule[0])]


def _said(rule: tuple[int, str, int]) -> str:
    return f"{rule[0]}: from {rule[1]} lookup {rule[2]}"
