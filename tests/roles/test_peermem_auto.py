"""Which way of peer memory a node takes: dma-buf, or nvidia-peermem where that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.roles import peermem
from tests.roles.fake import FakeMachine
from tests.roles.peermem_node import FILE, SYMBOLS, VERSION, answer, arguments, layers, with_gpu


@pytest.fixture
def node(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    return with_gpu(machine, monkeypatch)


def test_auto_prefers_dmabuf(node: FakeMachine):
    node.put(FILE, "nvidia_peermem\n")
    result = converge(node, peermem, arguments("auto"), check=False)
    assert result["notes"] == ["dmabuf: the node supports it"]
    assert layers(result) == [("configured", FILE)]
    assert not node.exists(FILE)
    assert not converge(node, peermem, arguments("auto"), check=False)["changed"]


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda node: node.put(VERSION, "NVIDIA UNIX x86_64 Kernel Module  580"), "proprietary"),
        (
            lambda node: (
                node.remove(VERSION),
                node.programs.update({"modinfo -F license nvidia": "NVIDIA\n"}),
            ),
            r"proprietary one \(modinfo",
        ),
    ],
)
def test_auto_takes_peermem_where_dmabuf_cannot_be(node: FakeMachine, prepare: Any, why: str):
    prepare(node)
    result = converge(node, peermem, arguments("auto"), check=False)
    (note,) = result["notes"]
    assert note.startswith("nvidia-peermem: ")
    assert layers(result) == [("running", "nvidia_peermem"), ("configured", FILE)]
    with pytest.raises(Refused, match=rf"^dma-buf cannot be used: .*{why}.*peermem_mode"):
        converge(node, peermem, arguments("dmabuf"), check=True)


def test_nics_that_cannot_do_dmabuf_are_named(node: FakeMachine, monkeypatch: pytest.MonkeyPatch):
    answer(monkeypatch, "mlx5_0's driver does not register dma-buf memory")
    with pytest.raises(Refused, match="rail 0: mlx5_0's driver does not"):
        converge(node, peermem, arguments("dmabuf"), check=True)
    node.put("/proc/kallsyms", "0000000000000000 T other\n")
    with pytest.raises(NotYet, match=r"peermem_mode: dmabuf \(nvidia-peermem: rail 0: mlx5_0's"):
        converge(node, peermem, arguments("auto"), check=True)


def test_drivers_decide_and_not_the_kernels_number(
    node: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    """What was backported to a distribution's kernel, its number does not tell."""
    node.put("/proc/sys/kernel/osrelease", "4.18.0-553.el8_10.x86_64\n")
    result = converge(node, peermem, arguments("auto"), check=True)
    assert result["notes"] == ["dmabuf: the node supports it"]
    answer(monkeypatch, "mlx5_0's driver does not register dma-buf memory")
    node.put("/sys/module/ib_uverbs/refcnt", "2\n")
    with pytest.raises(Refused, match=r"drivers of kernel 4\.18\.0-553\S+ have no ib_umem_dmabuf"):
        converge(node, peermem, arguments("dmabuf"), check=True)
    node.put("/proc/kallsyms", SYMBOLS + "0000000000000000 t ib_umem_dmabuf_get\t[ib_uverbs]\n")
    with pytest.raises(
        Refused, match=r"rail 0: mlx5_0's driver does not register dma-buf memory\."
    ):
        converge(node, peermem, arguments("dmabuf"), check=True)


@pytest.mark.parametrize("mode", ["auto", "dmabuf"])
def test_driver_that_decides_may_come(node: FakeMachine, mode: str):
    node.remove(VERSION)
    with pytest.raises(NotYet, match=r"nvidia: kernel 6.8.0-45-generic has no such module"):
        converge(node, peermem, arguments(mode), check=True)


def test_auto_has_nothing_to_do_without_a_gpu(node: FakeMachine):
    node.put("/sys/bus/pci/devices/0000:1b:00.0/vendor", "0x1002\n")
    result = converge(node, peermem, arguments("auto"), check=False)
    assert not result["changed"]
    assert result["notes"] == ["off: the node has no NVIDIA GPU (/sys/bus/pci/devices)"]


def test_other_gpu_driver_than_the_sites_is_refused(node: FakeMachine):
    given = arguments("auto", gpu_module="proprietary")
    with pytest.raises(Refused, match=rf"module is open \({VERSION}\), expected proprietary"):
        converge(node, peermem, given, check=True)
