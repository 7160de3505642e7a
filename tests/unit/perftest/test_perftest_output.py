"""A perftest gets options that it has, and what it prints is read, with its units."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.tables import cases

from rdmaprov.acceptance.paths.perftests import outcome
from rdmaprov.perftest import errors
from rdmaprov.perftest.model import End, PathTest
from rdmaprov.perftest.tool.failures import cause, last_line
from rdmaprov.perftest.tool.options import (
    Abilities,
    RdmaPort,
    Settings,
    memory_of,
    read_abilities,
    words,
)
from rdmaprov.perftest.tool.output import read_figures, read_mtu

HEAD = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
FIXTURES = Path(__file__).parents[2] / "fixtures/perftest"


def fixture(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "gb_s"),
    [
        ("bw-5-mb.txt", 11024.71 * 1.048576 / 1000),
        ("bw-6-soft-roce-mb.txt", 90.04 * 1.048576 / 1000),
        ("bw-24-mib.txt", 11030.45 * 1.048576 / 1000),
        ("bw-25-cuda-loopback-mib.txt", 14948.67 * 1.048576 / 1000),
        ("bw-25-duration-gbits.txt", 98.02 / 8),
        ("bw-cx7-four-qps-gbits.txt", 111.71 / 8),
    ],
)
def test_a_table_of_bandwidths_gives_the_mean_in_gb_s(name: str, gb_s: float) -> None:
    figures = read_figures(fixture(name), 65536)
    assert figures is not None
    assert figures.gb_s == pytest.approx(gb_s)
    assert figures.usec == 0


@pytest.mark.parametrize(
    ("name", "size", "usec"), cases(__file__, "a_table_of_latencies_gives_the_typical_one")
)
def test_a_table_of_latencies_gives_the_typical_one(name: str, size: int, usec: float) -> None:
    figures = read_figures(fixture(name), size)
    assert figures is not None
    assert (figures.usec, figures.gb_s) == (usec, 0)


def test_a_latency_over_a_duration_gives_the_mean() -> None:
    # Formats RESULT_FMT_LAT_DUR and REPORT_FMT_LAT_DUR of perftest_parameters.h.
    head = " #bytes        #iterations       t_avg[usec]    tps average\n"
    figures = read_figures(f"{head} 2       1000            3.21        311526.48\n", 2)
    assert figures is not None
    assert figures.usec == 3.21


@pytest.mark.parametrize(
    ("name", "size", "unit", "gb_s"),
    [
        ("bw-24.json", 65536, "MB/sec", 2229.27 * 1.048576 / 1000),
        ("bw-4.5-no-json.txt", 1 << 20, "Gb/sec", 97.28 / 8),
    ],
)
def test_json_is_read_also_where_it_is_none(name: str, size: int, unit: str, gb_s: float) -> None:
    figures = read_figures(fixture(name), size, unit)
    assert figures is not None
    assert figures.gb_s == pytest.approx(gb_s)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage\x00\x1b[31m 1 2 3 4 5\n" * 50,
        HEAD,
        HEAD + " 65536 5000 nan nan 0\n",
        HEAD + " 65536 1 1 1e300 0\n",
        HEAD + " 65536 5000 0.00 0.00 0.0\n",
        HEAD + " 65536 1 1 99999 1.0\n",
        HEAD.replace("Gb/", "XB/") + " 65536 1 1 1 1.0\n",
        HEAD + " 1024 1 1 1 1.0\n",
        ' 65536 5000 1.0 1.0 1.0\n{"results": {"MsgSize": "65536"',
    ],
)
def test_a_text_without_a_possible_number_of_that_size_gives_none(text: str) -> None:
    assert read_figures(text, 65536) is None


@pytest.mark.parametrize(
    ("name", "word", "said"), cases(__file__, "a_failure_has_the_word_of_its_cause")
)
def test_a_failure_has_the_word_of_its_cause(name: str, word: str, said: str) -> None:
    assert cause(fixture(name)) == (word, said)


@pytest.mark.parametrize(("text", "word"), cases(__file__, "what_its_source_says_has_a_word"))
def test_what_its_source_says_has_a_word(text: str, word: str) -> None:
    assert cause(text)[0] == word


def test_a_good_run_has_no_cause() -> None:
    for path in sorted(FIXTURES.glob("bw-*.txt")):
        assert cause(path.read_text(encoding="utf-8")) == ("", ""), path.name


def test_every_word_has_a_meaning() -> None:
    words = {
        value for name, value in vars(errors).items() if name.isupper() and isinstance(value, str)
    }
    assert words == set(errors.MEANINGS)
    assert words > errors.UNTESTED


def test_what_perftest_says_is_shown_without_control_characters_and_cut() -> None:
    assert last_line("one\n\x1b[31m" + "x" * 900 + "\n-----\n\n").startswith(r"\x1b[31mxxx")
    assert len(last_line("x" * 900)) == 300


@pytest.mark.parametrize(("name", "mtu"), cases(__file__, "the_mtu_of_the_path_is_read"))
def test_the_mtu_of_the_path_is_read(name, mtu):
    assert read_mtu((FIXTURES / name).read_text()) == mtu


def ended(name, rc=0):
    return {"rc": rc, "why": "", "out": (FIXTURES / name).read_text()}


def test_a_path_of_small_packets_is_no_good_path():
    test = PathTest(End("a", 0), End("b", 0), size=65536)
    client = ended("bw-6-soft-roce-mb.txt")
    found = outcome(test, client, client, listened=True, lost="", mtu=4096)
    assert (found.error, found.said) == ("small-mtu", "packets of 1024 B, expected 4096 B")
    assert found.error not in errors.UNTESTED
    assert outcome(test, client, client, listened=True, lost="", mtu=1024).gb_s > 0.09
    assert outcome(test, client, client, listened=True, lost="").error == ""


HELP = (Path(__file__).parents[2] / "fixtures/perftest/help-4.5.txt").read_text(encoding="utf-8")
ROCE = RdmaPort("mlx5_0", 3, 4096)
TEST = PathTest(End("a", 0), End("b", 0))
CUDA = Abilities(frozenset({"--use_cuda", "--use_cuda_dmabuf"}))


def test_its_own_help_says_what_it_can() -> None:
    able = read_abilities(HELP)
    assert {"--tclass", "--duration", "--gid-index", "--report_gbits"} <= able.options
    assert able.gpu_options == ("", "")


def test_a_test_of_bandwidth_runs_for_a_time_with_the_traffic_class_of_its_dscp() -> None:
    assert words(TEST, "host", ROCE, "20001", Settings(duration_s=5, dscp=26), Abilities()) == [
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
        (Abilities(frozenset({"--use_cuda"}), uses_dmabuf=True), ["--use_cuda=2"]),
        (Abilities(frozenset({"--use_rocm"})), ["--use_rocm=2"]),
    ],
)
def test_gpu_memory_is_asked_for_as_its_help_has_it(able: Abilities, last: list[str]) -> None:
    given = words(TEST, "gpu2", ROCE, "20001", Settings(), able)
    assert given is not None
    assert given[-len(last) :] == last


def test_without_an_option_for_gpus_there_is_no_command() -> None:
    able = read_abilities(HELP)
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
    able = Abilities()
    test = PathTest(End("a", 0), End("b", 0))
    said = words(test, "host", RdmaPort("rxe0", 1), "7", Settings(qp_timeout=18), able) or []
    assert said[said.index("-u") + 1] == "18"
    assert "-u" not in (words(test, "host", RdmaPort("rxe0", 1), "7", Settings(), able) or "-u")


def test_a_number_of_messages_replaces_the_duration():
    able, port, test = Abilities(), RdmaPort("rxe0", 1), PathTest(End("a", 0), End("b", 0))
    few = words(test, "host", port, "7", Settings(messages=200, tx_depth=8), able) or []
    assert (few[few.index("-n") + 1], few[few.index("-t") + 1]) == ("200", "8")
    assert "-D" not in few
    usual = words(test, "host", port, "7", Settings(), able) or []
    assert "-D" in usual
    assert not {"-n", "-t"} & set(usual)
