"""What the kernel shows of a port in its subnet, and what is none of it."""

from __future__ import annotations

import pytest

from rdmaprov.facts import CouldNotTell, subnet_port
from rdmaprov.facts.text import Files

PORT = "/sys/class/infiniband/mlx5_0/ports/1"
TEXTS = {
    f"{PORT}/lid": "0xb0\n",
    f"{PORT}/sm_lid": "0x68\n",
    f"{PORT}/gids/0": "fe80:0000:0000:0000:1070:fd03:00a4:1f36\n",
    f"{PORT}/pkeys/0": "0xffff\n",
    f"{PORT}/pkeys/1": "0x0000\n",
    f"{PORT}/pkeys/10": "0x8001\n",
}


def test_port_has_its_place_in_the_subnet():
    port = subnet_port.parse(Files(TEXTS, {}), "mlx5_0")
    assert (port.lid, port.sm_lid) == (176, 104)
    assert (port.prefix, port.guid) == (0xFE80000000000000, 0x1070FD0300A41F36)
    assert port.pkeys == {0: 0xFFFF, 10: 0x8001}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("lid", "176\n"),
        ("lid", "0x12345\n"),
        ("lid", "\n"),
        ("sm_lid", "-1\n"),
        ("gids/0", "fe80::1\n"),
        ("gids/0", "fe80:0000:0000:0000\n"),
        ("pkeys/1", "0x18001\n"),
    ],
)
def test_odd_value_is_unknown(file: str, text: str):
    with pytest.raises(CouldNotTell, match=file):
        subnet_port.parse(Files({**TEXTS, f"{PORT}/{file}": text}, {}), "mlx5_0")


@pytest.mark.parametrize("file", ["lid", "sm_lid", "gids/0"])
def test_missing_value_is_unknown(file: str):
    rest = {path: text for path, text in TEXTS.items() if path != f"{PORT}/{file}"}
    with pytest.raises(CouldNotTell, match="does not exist"):
        subnet_port.parse(Files(rest, {}), "mlx5_0")
