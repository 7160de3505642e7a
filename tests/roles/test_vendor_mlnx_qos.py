"""The vendor's mlnx_qos sets what dcb sets. RDMAPROV_MLNX_TOOLS names a checkout of its code."""

import errno
import importlib
import io
import os
import runpy
import struct
import sys
from contextlib import redirect_stdout
from copy import copy, deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed
from plugins.module_utils.qos.mlnx_qos import MlnxQos
from plugins.module_utils.roles import roce_qos
from tests.roles.card import TSA, Port, Tools, listing
from tests.roles.qos_node import QosNode, arguments

# include/uapi/linux/dcbnl.h
IEEE_SET, IEEE_GET, GDCBX, SDCBX, IEEE_DEL = 20, 21, 22, 23, 27
IFNAME, IEEE, DCBX = 1, 13, 14
ETS, PFC, APP_TABLE, MAXRATE, BUFFER = 1, 2, 3, 7, 10
HOST, CEE, IEEE_VERSION, SEL_DSCP = 1, 4, 8, 5
TSA_CODES = dict(zip(TSA, (0, 2, 255), strict=True))
TOTAL_BYTES = 262016


def tree() -> Path:
    """Return a checkout of Mellanox/mlnx-tools, whose code is not kept here."""
    path = os.environ.get("RDMAPROV_MLNX_TOOLS")
    if not path:
        pytest.skip("RDMAPROV_MLNX_TOOLS names no checkout of Mellanox/mlnx-tools")
    return Path(path)


class Vendor:
    def __init__(self, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tools = tools
        self.script = tree() / "python" / "mlnx_qos"
        monkeypatch.syspath_prepend(str(tree() / "python" / "Python"))
        self.netlink = importlib.import_module("netlink")
        dcbnetlink = importlib.import_module("dcbnetlink")
        monkeypatch.setattr(dcbnetlink, "Connection", lambda _: Peer(self))

    def __call__(self, argv: list[str]) -> str:
        """Return what it printed, as a machine does."""
        said, code = io.StringIO(), 0
        before, sys.argv = sys.argv, [str(self.script), *argv[1:]]
        try:
            with redirect_stdout(said):
                runpy.run_path(str(self.script), run_name="__main__")
        except SystemExit as end:
            code = int(end.code or 0)
        except Exception as error:
            raise CommandFailed(argv, 1, f"{type(error).__name__}: {error}") from error
        finally:
            sys.argv = before
        if code:
            raise CommandFailed(argv, code, said.getvalue())
        return said.getvalue()


class Peer:
    """The kernel's dcbnl on one connection: one request, one reply."""

    pid = 0

    def __init__(self, vendor: Vendor) -> None:
        self.netlink: Any = vendor.netlink
        self.ports = vendor.tools.ports
        self.reply = b""

    def seq(self) -> int:
        return 1

    def send(self, message: bytes) -> None:
        command = message[17]
        attributes = self.netlink.parse_attributes(message[20:])
        netdev = attributes[IFNAME].str().rstrip(b"\0").decode()
        self.reply = self._answer(command, self.ports.get(netdev), attributes)

    def recv(self) -> list[Any]:
        return [SimpleNamespace(payload=bytes(4) + self.reply)]

    def _answer(self, command: int, port: Port | None, attributes: Any) -> bytes:
        if port is None:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        if command == IEEE_GET:
            return self._dump(IEEE, self._shown(port))
        if command == GDCBX:
            return self._byte(DCBX, CEE | IEEE_VERSION | (HOST if port.host else 0))
        if command == SDCBX:
            port.host = bool(attributes[DCBX].u8() & HOST)
            return self._byte(DCBX, 0)
        for kind, value in attributes[IEEE].nested().items():
            self._set(port, kind, value, delete=command == IEEE_DEL)
        return self._byte(IEEE, 0)

    def _shown(self, port: Port) -> list[Any]:
        text = self.netlink.StrAttr
        tsa = bytes(TSA_CODES[each] for each in port.tsa)
        ets = bytes([0, 8, 0, *port.percent]) + bytes(8) + tsa + bytes(port.classes) + bytes(24)
        enabled = sum(on << priority for priority, on in enumerate(port.pfc))
        entries = [
            text(1, struct.pack("BBH", SEL_DSCP, priority, dscp))
            for dscp, priority in sorted(port.entries.items())
        ]
        sizes = struct.pack("9I", *port.buffer_bytes, TOTAL_BYTES)
        return [
            text(ETS, ets),
            text(MAXRATE, bytes(64)),
            text(PFC, struct.pack("BBBxHxx", 8, enabled, 0, port.delay) + bytes(128)),
            self.netlink.Nested(APP_TABLE, entries),
            text(BUFFER, bytes(port.priority_buffer) + sizes),
        ]

    def _set(self, port: Port, kind: int, value: Any, *, delete: bool) -> None:
        data: bytes = value.str()
        if kind == ETS:
            names = {code: name for name, code in TSA_CODES.items()}
            port.percent, port.classes = list(data[3:11]), list(data[27:35])
            port.tsa = [names[code] for code in data[19:27]]
        elif kind == PFC:
            port.switch([bool(data[1] >> priority & 1) for priority in range(8)])
            port.delay = data[4] + (data[5] << 8)
        elif kind == APP_TABLE:
            _, priority, dscp = struct.unpack("BBH", value.nested()[1].str()[:4])
            port.remove(dscp) if delete else port.add(dscp, priority)
        elif kind == BUFFER:
            sizes = list(struct.unpack("8I", data[8:40]))
            try:
                port.lay_out(list(data[:8]), sizes)
            except CommandFailed as error:
                raise OSError(errno.EINVAL, "Invalid argument") from error

    def _dump(self, kind: int, attributes: list[Any]) -> bytes:
        dumped: bytes = self.netlink.Nested(kind, attributes)._dump()
        return dumped

    def _byte(self, kind: int, value: int) -> bytes:
        dumped: bytes = self.netlink.U8Attr(kind, value)._dump()
        return dumped


MORE = {
    "dscp_priorities": {"26": 5, "48": 6, "0": 1},
    "pfc_priorities": [5],
    "priority_buffer": {"5": 2},
    "buffer_bytes": {"0": 65536, "1": 0, "2": 131072},
    "cable_length_m": 20,
}
DESCRIPTIONS: tuple[dict[str, Any], ...] = ({}, MORE)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> QosNode:
    made = QosNode.made(tmp_path / "vendor")
    made.programs["mlnx_qos "] = Vendor(made.tools, monkeypatch)
    return made


def run(node: QosNode, backend: str = "mlnx_qos", **changed: Any) -> dict[str, Any]:
    return converge(node, roce_qos, arguments(backend=backend, **changed), check=False)


@pytest.mark.parametrize("more", DESCRIPTIONS, ids=["defaults", "all"])
def test_both_tools_reach_the_same_state(node: QosNode, tmp_path: Path, more: dict[str, Any]):
    other = QosNode.made(tmp_path / "dcb")
    run(other, "dcb", **more)
    run(node, **more)
    assert vars(node.port) == vars(other.port)
    assert not run(node, **more)["changed"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pfc", [True] * 8),
        ("tsa", ["strict"] * 8),
        ("percent", [10, 0, 0, 90, 0, 0, 0, 0]),
        ("classes", [0] * 8),
        ("delay", 1),
        ("host", False),
        ("entries", {}),
        ("entries", {26: 0}),
    ],
)
def test_one_wrong_setting_is_repaired(node: QosNode, name: str, value: object):
    # The cable's length counts only with buffers of the site.
    more: dict[str, Any] = MORE if name == "delay" else {}
    run(node, **more)
    right = deepcopy(getattr(node.port, name))
    setattr(node.port, name, copy(value))
    assert run(node, **more)["changed"]
    assert getattr(node.port, name) == right


def test_trust_goes_back_to_pcp(node: QosNode):
    run(node)
    run(node, trust="pcp")
    assert not node.port.entries


def test_firmware_is_given_the_decision(node: QosNode):
    run(node)
    run(node, dcbx="firmware")
    assert not node.port.host


def test_port_without_dcb_has_none(node: QosNode):
    assert MlnxQos(node).read("eno1") is None


def test_made_up_listing_is_the_vendors(node: QosNode):
    for more in DESCRIPTIONS:
        run(node, **more)
        assert node.run(["mlnx_qos", "-i", "ens1", "-a"]) == listing(node.port)
