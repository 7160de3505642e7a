"""A made-up node's ip: links, addresses, routes and rules, in iproute2's JSON."""

import json
import re
from ipaddress import ip_interface
from typing import Any

from plugins.module_utils.machine import CommandFailed
from tests.roles.fake import FakeMachine


class IpRoute:
    """What the kernel has, as ip shows and changes it.

    `links` has, by network device, whether it is up and its addresses with prefix length; `routes`
    by family and table a list of "TO via GATEWAY dev NETDEV"; `rules` by family a list of
    (priority, source, table). A device's last IPv4 address takes its IPv4 routes with it.
    """

    def __init__(self, machine: FakeMachine) -> None:
        self.machine = machine
        self.links: dict[str, list[str]] = {}
        self.up: dict[str, bool] = {}
        self.flags: dict[str, list[str]] = {}
        self.routes: dict[tuple[str, str], list[str]] = {}
        self.rules: dict[str, list[tuple[int, str, str]]] = {"-4": [], "-6": []}
        machine.programs["ip "] = self.answer

    def answer(self, argv: list[str]) -> str:
        words = [word for word in argv[1:] if word not in ("-N", "-j")]
        family = words.pop(0) if words[0] in ("-4", "-6") else ""
        return json.dumps(getattr(self, "_" + "_".join(words[:2]))(family, words[2:]) or [])

    def _address_show(self, family: str, words: list[str]) -> list[dict[str, Any]]:  # noqa: ARG002
        return [
            {
                "ifname": name,
                "flags": ["BROADCAST", *(["UP"] if self.up.get(name, True) else [])],
                "addr_info": [self._info(each) for each in addresses],
            }
            for name, addresses in self.links.items()
        ]

    def _info(self, address: str) -> dict[str, Any]:
        interface = ip_interface(address)
        scope = "link" if interface.ip.is_link_local else "global"
        flags = dict.fromkeys(self.flags.get(address, []), True)
        prefix = interface.network.prefixlen
        return {"local": str(interface.ip), "prefixlen": prefix, "scope": scope, **flags}

    def _address_replace(self, family: str, words: list[str]) -> None:
        if words[0] not in self.links[words[-1]]:
            self._address_add(family, words)

    def _address_add(self, family: str, words: list[str]) -> None:  # noqa: ARG002
        self.links[words[-1]].append(words[0])

    def _address_del(self, family: str, words: list[str]) -> None:  # noqa: ARG002
        netdev = words[-1]
        self.links[netdev].remove(words[0])
        if "." in words[0] and not any("." in each for each in self.links[netdev]):
            for (version, _), routes in self.routes.items():
                if version == "-4":
                    routes[:] = [each for each in routes if not each.endswith(" dev " + netdev)]

    def _link_set(self, family: str, words: list[str]) -> None:  # noqa: ARG002
        self.up[words[1]] = words[-1] == "up"

    def _route_show(self, family: str, words: list[str]) -> list[dict[str, Any]]:
        if words == ["default"]:
            return [{"dst": "default", "gateway": "10.0.2.2", "dev": "eno1"}]
        if (family, words[1]) not in self.routes:
            argv = ["ip", family, "route", "show", *words]
            raise CommandFailed(argv, 2, "Error: ipv4: FIB table does not exist.\nDump terminated")
        return [_route(text) for text in self.routes[family, words[1]]]

    def _route_replace(self, family: str, words: list[str]) -> None:
        routes = self.routes.setdefault((family, words[words.index("table") + 1]), [])
        routes[:] = [each for each in routes if each.split()[0] != words[0]]
        routes.append(" ".join(words[: words.index("table")]))

    def _route_del(self, family: str, words: list[str]) -> None:
        table = words[words.index("table") + 1]
        self.routes[family, table].remove(" ".join(words[: words.index("table")]))

    def _rule_show(self, family: str, words: list[str]) -> list[dict[str, Any]]:  # noqa: ARG002
        return [{"priority": 32766, "src": "all", "table": "254"}] + [
            {"priority": priority, "src": source, "table": table}
            for priority, source, table in self.rules[family]
        ]

    def _rule_add(self, family: str, words: list[str]) -> None:
        rule = (int(words[5]), words[1], words[3])
        if rule in self.rules[family]:
            raise CommandFailed(["ip", "rule", "add"], 2, "RTNETLINK answers: File exists")
        self.rules[family].append(rule)

    def _rule_del(self, family: str, words: list[str]) -> None:
        self.rules[family].remove((int(words[5]), words[1], words[3]))


def _route(text: str) -> dict[str, str]:
    found = re.fullmatch(r"(\S+)(?: via (\S+))? dev (\S+)", text)
    assert found, text
    to, gateway, netdev = found.groups()
    return {"dst": to, "dev": netdev, **({"gateway": gateway} if gateway else {})}
