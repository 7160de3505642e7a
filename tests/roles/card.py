"""A made-up port with DCB as mlx5 has it, and the tools that read and set it."""

import json
from typing import Any

from plugins.module_utils.machine import CommandFailed
from tests.roles.fake import FakeMachine

TSA = ("strict", "ets", "vendor")


class Port:
    """The registers of a port. `entries` is what is listed, `registers` what classifies."""

    def __init__(self) -> None:
        self.host = True
        self.entries: dict[int, int] = {}
        self.registers = [dscp >> 3 for dscp in range(64)]
        self.pfc = [False] * 8
        self.delay = 7
        self.tsa = ["vendor"] * 8
        self.percent = [0] * 8
        self.classes = [1, 0, 2, 3, 4, 5, 6, 7]
        self.priority_buffer = [0] * 8
        self.buffer_bytes = [20016, 156096, 0, 0, 0, 0, 0, 0]
        self.pause = ("on", "on")
        self.sysfs = False  # buffers are in sysfs, as with MLNX_OFED's driver

    def add(self, dscp: int, priority: int) -> None:
        self.entries[dscp] = self.registers[dscp] = priority

    def remove(self, dscp: int) -> None:
        del self.entries[dscp]
        self.registers[dscp] = 0

    def lay_out(self, priority_buffer: list[int], buffer_bytes: list[int]) -> None:
        """Change receive buffers; a priority with PFC must be in one that has room."""
        if any(on and not buffer_bytes[priority_buffer[prio]] for prio, on in enumerate(self.pfc)):
            raise CommandFailed(["set buffers"], 1, "Buffers commands error")
        self.priority_buffer, self.buffer_bytes = priority_buffer, buffer_bytes

    def switch(self, pfc: list[bool]) -> None:
        if pfc != self.pfc:
            self.pfc, self.pause = pfc, ("off", "off")


class Tools:
    """dcb, mlnx_qos and ethtool on a node's ports; one that is not in `ports` has no DCB."""

    def __init__(self, machine: FakeMachine, netdevs: list[str]) -> None:
        self.ports = {netdev: Port() for netdev in netdevs}
        self.deaf = False  # sets nothing and says so, as a NIC that refuses
        self.lying = False  # ends with an error after it set what it was told to
        machine.programs.update(
            {"dcb ": self._dcb, "mlnx_qos ": self._mlnx_qos, "ethtool -": self._ethtool}
        )

    def _dcb(self, argv: list[str]) -> str:
        words = [word for word in argv[1:] if word not in ("-N", "-j")]
        what, verb, netdev = words[0], words[1], words[3]
        if netdev not in self.ports:
            raise CommandFailed(argv, 1, "Attribute read: Operation not supported")
        if verb == "show":
            return json.dumps(getattr(self, "_show_" + what)(self.ports[netdev]))
        if verb == "del":  # mlx5 dropped a DSCP's former entry when it got another
            raise CommandFailed(argv, 1, "Attribute write: No such file or directory")
        if not self.deaf:
            getattr(self, f"_{verb}_{what}")(self.ports[netdev], _options(words[4:]))
        if self.deaf or self.lying:
            raise CommandFailed(argv, 1, "Attribute write: Protocol error")
        return ""

    def _show_app(self, port: Port) -> dict[str, Any]:
        entries = [list(each) for each in sorted(port.entries.items())]
        return {"dscp_prio": entries} if entries else {}

    def _show_pfc(self, port: Port) -> dict[str, Any]:
        return {"pfc_cap": 8, "delay": port.delay, "prio_pfc": port.pfc}

    def _show_ets(self, port: Port) -> dict[str, Any]:
        return {"tc_tsa": port.tsa, "tc_bw": port.percent, "prio_tc": port.classes}

    def _show_buffer(self, port: Port) -> dict[str, Any]:
        return {"prio_buffer": port.priority_buffer, "buffer_size": port.buffer_bytes}

    def _show_dcbx(self, port: Port) -> dict[str, Any]:
        return {"host": True, "ieee": True} if port.host else {"ieee": True}

    def _set_dcbx(self, port: Port, options: dict[str, list[str]]) -> None:
        port.host = "host" in options

    def _add_app(self, port: Port, options: dict[str, list[str]]) -> None:
        for dscp, priority in _pairs(options["dscp-prio"]):
            port.add(int(dscp), int(priority))

    def _flush_app(self, port: Port, options: dict[str, list[str]]) -> None:  # noqa: ARG002
        for dscp in list(port.entries):
            port.remove(dscp)

    def _set_pfc(self, port: Port, options: dict[str, list[str]]) -> None:
        pfc = list(port.pfc)
        _assign(pfc, [(key, value == "on") for key, value in _pairs(options["prio-pfc"])])
        port.switch(pfc)
        port.delay = int(options["delay"][0])

    def _set_ets(self, port: Port, options: dict[str, list[str]]) -> None:
        _assign(port.tsa, _pairs(options["tc-tsa"]))
        _assign(port.percent, _numbers(options["tc-bw"]))
        _assign(port.classes, _numbers(options["prio-tc"]))
        self._check(port)

    def _set_buffer(self, port: Port, options: dict[str, list[str]]) -> None:
        buffers, sizes = list(port.priority_buffer), list(port.buffer_bytes)
        _assign(buffers, _numbers(options["prio-buffer"]))
        _assign(sizes, _numbers(options["buffer-size"]))
        port.lay_out(buffers, sizes)

    def _check(self, port: Port) -> None:
        assert sum(port.percent) == 100, port.percent
        assert all(tsa == "ets" or not bw for tsa, bw in zip(port.tsa, port.percent, strict=True))

    def _ethtool(self, argv: list[str]) -> str:
        port = self.ports[argv[2]]
        if argv[1] == "-A":
            port.pause = (argv[4], argv[6])
            return ""
        return "Pause parameters for X:\nAutonegotiate:\toff\nRX:\t\t{}\nTX:\t\t{}\n".format(
            *port.pause
        )

    def _mlnx_qos(self, argv: list[str]) -> str:
        if argv[2] not in self.ports:
            raise CommandFailed(argv, 1, "ETS features are not supported on your system")
        port, words = self.ports[argv[2]], argv[3:]
        flags = [word for word in words if word.startswith("--dscp2prio=")]
        options = dict(zip(words[::2], words[1::2], strict=False)) if not flags else {}
        for word in flags:
            verb, dscp, priority = word.partition("=")[2].split(",")
            assert verb == "set"
            port.add(int(dscp), int(priority))
        if "-d" in options:
            port.host = options["-d"] == "os"
        self._mlnx_trust(port, options.get("--trust", ""))
        if "--pfc" in options:
            port.switch([each == "1" for each in options["--pfc"].split(",")])
        port.delay = int(options.get("--cable_len", port.delay))
        self._mlnx_lists(port, options)
        return listing(port)

    def _mlnx_trust(self, port: Port, trust: str) -> None:
        if trust == "dscp" and not port.entries:
            for dscp in range(64):
                port.add(dscp, dscp >> 3)
        if trust == "pcp":
            for dscp in list(port.entries):
                port.remove(dscp)

    def _mlnx_lists(self, port: Port, options: dict[str, str]) -> None:
        if "--tsa" in options:
            port.tsa = options["--tsa"].split(",")
            port.percent = [int(each) for each in options["--tcbw"].split(",")]
            port.classes = [int(each) for each in options["--prio_tc"].split(",")]
            self._check(port)
        if "--prio2buffer" in options or "--buffer_size" in options:
            self._mlnx_buffers(port, options)

    def _mlnx_buffers(self, port: Port, options: dict[str, str]) -> None:
        buffers, sizes = port.priority_buffer, port.buffer_bytes
        if "--buffer_size" in options:
            sizes = [int(each) for each in options["--buffer_size"].split(",")]
        if "--prio2buffer" in options and not (port.sysfs and "--buffer_size" in options):
            buffers = [int(each) for each in options["--prio2buffer"].split(",")]
        port.lay_out(buffers, sizes)


def listing(port: Port) -> str:
    lines = [f"DCBX mode: {'OS' if port.host else 'Firmware'} controlled"]
    lines.append(f"Priority trust state: {'dscp' if port.entries else 'pcp'}")
    if port.entries:
        lines.append("dscp2prio mapping:")
        for priority in range(8):
            found = [f"{dscp:02}," for dscp, to in sorted(port.entries.items()) if to == priority]
            rows = ["".join(found[start : start + 8]) for start in range(0, len(found), 8)]
            lines += [f"\tprio:{priority} dscp:{row}" for row in rows]
    sizes = ",".join(str(each) for each in port.buffer_bytes)
    lines.append(f"Receive buffer size (bytes): {sizes},max_buffer_size=262016")
    lines.append(f"Cable len: {port.delay}")
    lines.append("PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7")
    for name, values in (("enabled", port.pfc), ("buffer ", port.priority_buffer)):
        lines.append(f"\t{name}     " + "".join(f"{int(each)}   " for each in values))
    for tc in range(8):
        share = f", bw: {port.percent[tc]}%" if port.tsa[tc] == "ets" else ""
        lines.append(f"tc: {tc} ratelimit: unlimited, tsa: {port.tsa[tc]}{share}")
        lines += [f"\t priority:  {prio}" for prio, to in enumerate(port.classes) if to == tc]
    return "\n".join(lines) + "\n"


def _options(words: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in words:
        if word[0].isdigit() or word.startswith("all:"):
            found[list(found)[-1]].append(word)
        else:
            found[word] = []
    return found


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    return [(key, value) for key, _, value in (word.partition(":") for word in words)]


def _numbers(words: list[str]) -> list[tuple[str, int]]:
    return [(key, int(value)) for key, value in _pairs(words)]


def _assign(values: list[Any], pairs: list[tuple[str, Any]]) -> None:
    for key, value in pairs:
        for index in range(len(values)) if key == "all" else [int(key)]:
            values[index] = value
