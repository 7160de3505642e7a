"""A perftest gets options that it has, and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rdmaprov.perftest.model import End, PathTest
from rdmaprov.perftest.tool.options import (
    Abilities,
    RdmaPort,
    Settings,
    memory_of,
    read_abilities,
    words,
)

HELP = (Path(__file__).parents[2] / "fixtures/perftest/help-4.5.txt").read_text(encoding="utf-8")
ROCE = RdmaPort("mlx5_0", 3, 4096)
TEST = PathTest(End("a", 0), End("b", 0))
CUDA = Abilities("24.10", frozenset({"--use_cuda", "--use_cuda_dmabuf"}))


def test_its_own_help_and_version_say_what_it_can() -> None:
    able = read_abilities("Version: 6.06\n", HELP)
    assert able.version == "6.06"
    assert {"--tclass", "--duration", "--gid-index", "--report_gbits"} <= able.options
    assert able.gpu_options == ("", "")


def test_a_test_of_bandwidth_runs_for_a_time_with_the_traffic_class_of_its_dscp() -> None:
    given = words(TEST, "host", ROCE, "20001", Settings(duration_s=5, dscp=26), Abilities())
    assert given == [
        "ib_write_bw", "-F", "-d", "mlx5_0", "-p", "20001", "-s", "1048576",
        "-D", "5", "--report_gbits", "-x", "3", "-m", "4096", "--tclass=104",
    ]  # fmt: skip


def test_on_infiniband_it_has_a_service_level_and_no_gid() -> None:
    settings = Settings(dscp=26, service_level=3)
    given = words(TEST, "host", RdmaPort("mlx5_0"), "20001", settings, Abilities())
    assert given is not None
    assert given[-2:] == ["-S", "3"]
    assert "-x" not in given
    assert not any(word.startswith("--tclass") for word in given)


def test_a_test_of_latency_has_iterations() -> None:
    test = PathTest(End("a", 0), End("b", 0), "latency", 8)
    given = words(test, "host", ROCE, "20001", Settings(), Abilities())
    assert given is not None
    assert given[0] == "ib_write_lat"
    assert given[given.index("-n") + 1] == "1000"
    assert "-D" not in given


@pytest.mark.parametrize(
    ("able", "last"),
    [
        (CUDA, ["--use_cuda=2"]),
        (replace(CUDA, uses_dmabuf=True), ["--use_cuda=2", "--use_cuda_dmabuf"]),
        (Abilities("4.5", frozenset({"--use_cuda"}), uses_dmabuf=True), ["--use_cuda=2"]),
        (Abilities("24", frozenset({"--use_rocm"})), ["--use_rocm=2"]),
    ],
)
def test_gpu_memory_is_asked_for_as_its_help_has_it(able: Abilities, last: list[str]) -> None:
    given = words(TEST, "gpu2", ROCE, "20001", Settings(), able)
    assert given is not None
    assert given[-len(last) :] == last


def test_without_an_option_for_gpus_there_is_no_command() -> None:
    able = read_abilities("Version: 6.06", HELP)
    assert words(TEST, "gpu0", ROCE, "20001", Settings(), able) is None


def test_latency_of_gpu_memory_is_not_measured() -> None:
    test = PathTest(End("a", 0), End("b", 0), "latency", 8)
    assert words(test, "gpu0", ROCE, "20001", Settings(), CUDA) is None


@pytest.mark.parametrize("text", ["", "gpu", "numa", "host0", "gpu1x", "disk0", "gpu-1"])
def test_no_other_memory_is_taken(text: str) -> None:
    with pytest.raises(ValueError, match="is no memory"):
        memory_of(text)


def test_memories_are_a_kind_and_a_number() -> None:
    assert [memory_of(each) for each in ("host", "numa1", "gpu12")] == [
        ("host", -1),
        ("numa", 1),
        ("gpu", 12),
    ]


def test_a_longer_time_until_packets_are_sent_again_is_asked_for_by_its_exponent():
    able = Abilities("6.06")
    test = PathTest(End("a", 0), End("b", 0))
    said = words(test, "host", RdmaPort("rxe0", 1), "7", Settings(qp_timeout=18), able) or []
    assert said[said.index("-u") + 1] == "18"
    assert "-u" not in (words(test, "host", RdmaPort("rxe0", 1), "7", Settings(), able) or "-u")


def test_a_number_of_messages_replaces_the_duration():
    able, port, test = Abilities("6.06"), RdmaPort("rxe0", 1), PathTest(End("a", 0), End("b", 0))
    few = words(test, "host", port, "7", Settings(messages=200, tx_depth=8), able) or []
    assert (few[few.index("-n") + 1], few[few.index("-t") + 1]) == ("200", "8")
    assert "-D" not in few
    usual = words(test, "host", port, "7", Settings(), able) or []
    assert "-D" in usual
    assert not {"-n", "-t"} & set(usual)
