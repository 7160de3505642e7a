"""CollNet by NCCL's logs: a channel to the switch is no proof if NCCL then says that it failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rdmaprov.nccl_log import transport

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/nccl"
HEAD = "gpu36:20775:20807 [0] "
INIT = "NCCL WARN NET/IB : SHARP coll init error: Cannot create SHARP job(-11)\n"
FAILED = "NCCL WARN Cannot initialize CollNet, using point-to-point network instead\n"


def test_channels_of_a_job_in_the_switches():
    matrix = transport.read_matrix([FIXTURES / "sharp-2.23-hang.log"])
    assert transport.is_connected(matrix)
    assert transport.verdict(matrix).sharp


def test_channels_that_could_not_be_set_up_are_no_proof(tmp_path: Path):
    """As in nccl-tests#311, whose failing runs list the same channels before."""
    log = tmp_path / "log"
    text = (FIXTURES / "sharp-2.23-hang.log").read_text()
    log.write_text(f"{text}{HEAD}sharp_plugin.c:365 {INIT}{HEAD}transport.cc:384 {FAILED}")
    matrix = transport.read_matrix([log])
    assert not transport.verdict(matrix).sharp
    why = transport.obstacle(matrix)
    assert why.seen == "gpu36: NET/IB : SHARP coll init error: Cannot create SHARP job(-11)"
    assert why.cause.startswith("no aggregation manager gave a job")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("NCCL INFO NCCL_COLLNET_ENABLE set by environment to 0.", "CollNet is off"),
        ("NCCL INFO Using network IB", "CollNet is off"),
        ("NCCL INFO NCCL_COLLNET_ENABLE set by environment to 1.", "no rank loaded the SHARP"),
        (
            "NCCL INFO Communicator has 2 nodes which is less than CollNet node threshold 4, "
            "disabling CollNet",
            "the communicator has too few nodes",
        ),
        (
            "sharp_plugin.c:302 NCCL WARN SHARP group create: Streaming Tree lock failed (-18)",
            "the trees gave no group",
        ),
        (
            "NCCL INFO SHARP: Group size:2 is less than threshold:4. fallback to non-sharp",
            "the group is too small",
        ),
        (
            "sharp_plugin.c:382 NCCL WARN SHARP int8,uint8,bfloat16 Datatypes not supported",
            "the switches do not reduce this data type",
        ),
        ("NCCL INFO Rank 0: 0 CollNet devices", "the SHARP plugin found no device"),
    ],
)
def test_likely_cause(tmp_path: Path, line: str, cause: str):
    """Lines of nccl-rdma-sharp-plugins#151 and its src/sharp_plugin.c, and NCCL's src/init.cc."""
    log = tmp_path / "log"
    log.write_text(f"{HEAD}{line}\n")
    assert transport.obstacle(transport.read_matrix([log])).cause.startswith(cause)
