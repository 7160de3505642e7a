"""Completions with error: each form that NCCL has written, and what only looks like one."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import cases
from tests.unit.helpers.nccl_jobs import Job, of

from rdmaprov.nccl_log.completion import CompletionError, find_completions, parse_completion

FORMS = yaml.safe_load((Path(__file__).parents[2] / "fixtures/nccl/completions.yml").read_text())
UNSAID = CompletionError("", None, "", "", "", "", 0, 0, "")

LINE = (
    "NET/IB: Got completion from peer 10.0.0.2<4791> with status=12 opcode=0 len=0 vendor err 129"
)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["source"])
def test_a_form_of_nccl_s_is_read(form):
    assert parse_completion(form["line"].encode()) == replace(UNSAID, **form["read"])


@pytest.mark.parametrize("message", cases(__file__, "another_message_is_no_completion"))
def test_another_message_is_no_completion(message):
    assert parse_completion(message.encode()) is None


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text):
    assert all(found.status >= 0 for found in find_completions(text))
    found = parse_completion(f"{LINE}{text}".encode(errors="replace"))
    assert found is None or found.status == 12


def test_the_error_that_torch_raises_is_read():
    text = (
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting"
        f" prematurely.\nLast error:\n{LINE} (Send) hca mlx5_1\nException raised from check"
    )
    [found] = find_completions(text, "node7", 12)
    assert (found.host, found.rank, found.hca, found.peer) == ("node7", 12, "mlx5_1", "10.0.0.2")


def test_a_rank_s_errors_are_in_the_matrix_once():
    job = Job(nodes=2, gpus=2)
    warning = job.message(2, f"{LINE} (Send) hca mlx5_0").replace("NCCL INFO", "NCCL WARN")
    [found] = of(f"{job.text()}{warning}\n{warning}\n").errors
    assert found == CompletionError("node1", 2, "mlx5_0", "", "", "10.0.0.2", 12, 129, "Send")


def test_a_time_and_a_place_before_the_warning_do_not_matter():
    text = (
        "[2026-03-03 12:11:38] node0:185303:186751 [1] transport/net_ib.cc:2453 NCCL WARN "
        f"{LINE} (Send) hca mlx5_1\n"
    )
    [found] = of(text).errors
    assert (found.host, found.rank, found.hca) == ("node0", None, "mlx5_1")


def test_a_line_that_is_cut_says_nothing():
    assert (
        of(f"node0:1:2 [0] NCCL INFO Using network IB\nnode0:1:2 [0] NCCL WARN {LINE}").errors == ()
    )


def test_endless_different_errors_do_not_grow_the_matrix_without_end():
    lines = (
        f"node0:1:2 [0] NCCL WARN {LINE.replace('<4791>', '')} (Send) hca mlx5_{number}\n"
        for number in range(5000)
    )
    assert len(of("".join(lines)).errors) == 1024


def test_a_flush_is_told_from_its_cause():
    cause, follows = find_completions(f"{LINE}\n{LINE.replace('status=12', 'status=5')}")
    assert (cause.is_flush, follows.is_flush) == (False, True)
    assert "no answer from the peer" in cause.meaning
