"""Which algorithm NCCL took, from its TUNING lines in every form, by size and communicator."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import cases
from tests.unit.helpers.nccl_jobs import Job, of

from rdmaprov.nccl_log.tuning import parse_tuning, size_ranges, taken_algorithm

FORMS = yaml.safe_load((Path(__file__).parents[2] / "fixtures/nccl/tuning.yml").read_text())
TOP = 8 << 30


def lines(*sizes, algorithm="RING", source="node0:100:200 [0]"):
    return "".join(
        f"{source} NCCL INFO AllReduce: {size} Bytes -> Algo {algorithm} proto SIMPLE"
        " channel{Lo..Hi}={0..15}\n"
        for size in sizes
    )


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["source"])
def test_a_form_of_nccl_s_is_read(form):
    assert parse_tuning(form["line"].encode()) == tuple(form["read"])


@pytest.mark.parametrize("message", cases(__file__, "another_message_names_no_algorithm"))
def test_another_message_names_no_algorithm(message):
    assert parse_tuning(message.encode()) is None


@given(st.binary(max_size=120))
def test_any_bytes_are_read_without_an_error(data):
    for line in (data, b"AllReduce: 8 Bytes -> Algo " + data):
        found = parse_tuning(line)
        assert found is None or found.algorithm


def test_a_job_s_algorithm_is_found_by_size_and_ranks():
    matrix = of(Job(nodes=2, gpus=2).text() + lines(1024, TOP, TOP))
    assert taken_algorithm(matrix.choices, "AllReduce", TOP, 4) == "ring"
    assert taken_algorithm(matrix.choices, "AllReduce", TOP, 8) is None
    assert taken_algorithm(matrix.choices, "AllReduce", 2 * TOP, 4) is None
    assert taken_algorithm(matrix.choices, "AllGather", TOP, 4) is None


def test_two_algorithms_for_one_size_are_none():
    matrix = of(Job(nodes=2, gpus=2).text() + lines(TOP) + lines(TOP, algorithm="NVLS_TREE"))
    assert taken_algorithm(matrix.choices, "AllReduce", TOP, 4) is None


def test_a_group_s_algorithm_is_not_the_fleet_s():
    """A process is in a group of two first, and then in the fleet."""
    head = "node0:100:200 [0] NCCL INFO "
    log = (
        f"{head}ncclCommSplit comm 0x1 rank 0 nranks 2 commId 0x1 - Init COMPLETE\n"
        + lines(TOP, algorithm="NVLS_TREE")
        + f"{head}ncclCommInitRank comm 0x2 rank 0 nranks 16 commId 0x2 - Init COMPLETE\n"
        + lines(TOP)
    )
    choices = of(log).choices
    assert taken_algorithm(choices, "AllReduce", TOP, 2) == "nvlstree"
    assert taken_algorithm(choices, "AllReduce", TOP, 16) == "ring"


def test_sizes_that_took_the_same_are_one_range():
    log = lines(8, 16, 32, algorithm="TREE") + lines(64, TOP)
    assert [(one.low, one.high, one.taken) for one in size_ranges(of(log).choices)] == [
        (8, 32, "tree simple"),
        (64, TOP, "ring simple"),
    ]


def test_endless_different_sizes_do_not_grow_the_matrix_without_end(monkeypatch):
    monkeypatch.setattr("rdmaprov.nccl_log.tally._MAX_CHOICES", 100)
    assert len(of(lines(*range(8, 8000, 8))).choices) == 100
