"""A node that takes another network than the others is named by its own log."""

from __future__ import annotations

import io
import tarfile

import pytest
from tests.unit.helpers.accept_runs import job

from rdmaprov.acceptance.at_fault import odd_networks
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun


def packed(*networks: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for number, network in enumerate(networks):
            text = f"n:1:2 [0] NCCL INFO Using network {network}\n".encode()
            member = tarfile.TarInfo(f"nccl.n.{number}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return data.getvalue()


def named(*logs: bytes) -> list[str]:
    ran = JobRun(job(len(logs)))
    ran.nodes = {name: NodeRun(logs=log) for name, log in zip(ran.job.nodes, logs, strict=True)}
    return [each.node for each in odd_networks.findings(ran)]


@pytest.mark.parametrize("odd", [("Socket",), ("IB", "Socket"), ("AWS",)])
def test_the_odd_one_is_named(odd):
    usual = packed("IB", "IB")
    assert named(usual, packed(*odd), usual, usual) == ["n1"]


@pytest.mark.parametrize(
    "logs",
    [
        [packed("IB")] * 4,
        [packed("Socket")] * 4,
        [packed("IB"), packed("Socket")],
        [packed("IB"), packed("IB"), packed("Socket"), packed("Socket")],
        [packed("IB"), packed("IB"), b"", b"no archive"],
        [b""] * 3,
    ],
    ids=["alike", "all-sockets", "two", "halves", "no-log", "none"],
)
def test_nobody_is_named_where_no_one_is_odd(logs):
    assert named(*logs) == []
