"""Tests of paths on nodes that are this machine, by a stand-in for perftest that behaves badly."""

import os
import shutil
from pathlib import Path

import pytest
from tests.unit.helpers import perftest_standin
from tests.unit.helpers.local_node import local_probe
from tests.unit.helpers.supervised import marked as processes
from tests.unit.helpers.waiting import until

from rdmaprov.acceptance.paths import perftests as path_tests
from rdmaprov.acceptance.paths import session as path_session
from rdmaprov.acceptance.paths.perftests import open_path_tests
from rdmaprov.acceptance.paths.survey import NodeSurvey
from rdmaprov.perftest import errors
from rdmaprov.perftest.model import End, PathTest
from rdmaprov.perftest.tool.options import Abilities, RdmaPort, Settings

pytestmark = pytest.mark.waits

DEVICES = ("good", "good.5", "good.24", *perftest_standin.BAD, "child")
RAIL = {device: rail for rail, device in enumerate(DEVICES)}
ABLE = {name: Abilities() for name in ("ib_write_bw", "ib_write_lat")}
SETTINGS = Settings(duration_s=1)


def survey(**changes) -> NodeSurvey:
    values = {
        "address": "127.0.0.1",
        "abilities": ABLE,
        "ports": {rail: RdmaPort(device, 3) for device, rail in RAIL.items()},
        "said": {"numa": [0]},
        **changes,
    }
    return NodeSurvey(**values)


@pytest.fixture
def log(monkeypatch, tmp_path):
    programs = tmp_path / "bin"
    written = perftest_standin.install(programs)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return written


@pytest.fixture
def short(monkeypatch):
    """Shorten limits of clients and servers, for tests in which one lasts until it is reached."""
    monkeypatch.setattr(path_tests, "_SLACK_S", 8.0)
    monkeypatch.setattr(path_tests, "_LISTEN_S", 8.0)


@pytest.fixture
def probe(log):
    assert log.exists()
    with local_probe("n0", "n1") as probe:
        yield probe


@pytest.fixture
def tests(probe):
    """Return tests of paths on two nodes; nothing of them stays."""
    with open_path_tests(probe, {"n0": survey(), "n1": survey()}, SETTINGS) as made:
        session = vars(made)["_session"]
        yield made
    marks = list(vars(session)["_marks"].values())
    assert session.left == {"n0": (), "n1": ()}
    assert not any(map(processes, marks))
    assert not any(Path(each).exists() for each in vars(session)["_directories"].values())


def path(device: str, to: str = "", measures: str = "bandwidth") -> PathTest:
    return PathTest(End("n0", RAIL[device]), End("n1", RAIL[to or device]), measures, 65536)


def test_a_bandwidth_of_each_version_is_in_gb_s(tests):
    wanted = [path("good"), path("good.5"), path("good.24")]
    found = tests.measure(wanted)
    assert [found[test].error for test in wanted] == ["", "", ""]
    expected = [97.28 / 8, 11024.71 * 1.048576 / 1000, 11030.45 * 1.048576 / 1000]
    assert [found[test].gb_s for test in wanted] == pytest.approx(expected)


def test_a_latency_is_in_us(tests):
    test = path("good", measures="latency")
    assert tests.measure([test])[test].usec == 1.58


@pytest.mark.parametrize(
    ("client", "server", "word", "said"),
    [
        ("good", "silent", errors.NO_SERVER, ""),
        ("good", "takes-port", errors.PORT_IN_USE, "Couldn't listen to port"),
        ("fails", "good", errors.NO_NUMBERS, "exit status 1"),
        ("killed", "good", errors.KILLED, "signal 9"),
        ("completion", "good", errors.COMPLETION, "Completion with error at client"),
    ],
)
@pytest.mark.usefixtures("short")
def test_a_bad_end_has_the_word_of_its_failure_and_the_others_their_numbers(
    tests, client, server, word, said
):
    bad, good = path(client, server), PathTest(End("n1", 0), End("n0", 0), size=65536)
    found = tests.measure([bad, good])
    assert (found[bad].error, found[bad].gb_s) == (word, 0.0)
    assert said in found[bad].said
    assert found[good].gb_s == pytest.approx(97.28 / 8)


def test_clock_that_was_disturbed_is_measured_again_and_one_that_is_never_steady_is_named(
    tests, log
):
    once, never, good = path("unsteady", "good"), path("clockless", "good.5"), path("good.24")
    found = tests.measure([once, never, good])
    assert [found[test].error for test in (once, never, good)] == ["", errors.NO_CLOCK, ""]
    clients = [line.split() for line in log.read_text().splitlines() if line.startswith("client")]
    devices = [words[words.index("-d") + 1] for words in clients]
    assert [devices.count(name) for name in ("unsteady", "clockless", "good.24")] == [2, 3, 1]


def test_garbage_gives_no_number_and_is_shown_without_control_characters(tests):
    test = path("garbage", "good")
    result = tests.measure([test])[test]
    assert result.error == errors.NO_NUMBERS
    assert result.said.isprintable()
    assert len(result.said) <= 300


def test_megabytes_of_noise_before_the_table_do_no_harm(tests):
    test = path("flood", "good")
    assert tests.measure([test])[test].gb_s == pytest.approx(97.28 / 8)


@pytest.mark.usefixtures("short")
def test_rounds_follow_each_other_also_after_a_bad_one(tests):
    bad, good = path("hangs", "good"), path("good")
    assert tests.measure([bad])[bad].error == errors.TIMEOUT
    assert tests.measure([good])[good].error == ""


def test_no_client_starts_before_the_slowest_server_listens(tests, log):
    tests.measure([path("good", "late"), path("good.5", "good")])
    lines = [line.split() for line in log.read_text().splitlines()]
    clients = [float(line[1]) for line in lines if line[0] == "client"]
    late = next(float(line[1]) for line in lines if line[0] == "server" and "late" in line)
    assert len(clients) == 2
    assert min(clients) > late + 0.5  # it listens half a second after its start


def test_each_server_has_a_port_of_its_own(tests, log):
    tests.measure([path("good"), path("good.5"), path("good.24")])
    lines = [line.split() for line in log.read_text().splitlines() if line.startswith("server")]
    assert len({line[line.index("-p") + 1] for line in lines}) == 3


def numa_of_node0(monkeypatch, place: Path, has_numactl: bool) -> None:
    """Have runners see a NUMA node 0 with one processor, with or without numactl."""
    (place / "node0").mkdir(parents=True)
    (place / "node0/cpulist").write_text(f"{min(os.sched_getaffinity(0))}\n")
    original = vars(path_session)["node_script"]

    def script(program):
        source = original(program)
        for old, new in (
            (b'"/sys/devices/system/node"', repr(str(place)).encode()),
            (b'shutil.which("numactl")', str(has_numactl).encode()),
        ):
            assert old in source
            source = source.replace(old, new)
        return source

    monkeypatch.setattr(path_session, "node_script", script)


def test_memory_of_a_numa_node_is_bound_by_numactl(log, monkeypatch, tmp_path, request):
    numa_of_node0(monkeypatch, tmp_path / "numa", has_numactl=True)
    numactl = log.parent / "numactl"
    numactl.write_text(f'#!/bin/sh\necho "$1 $2" >> {log}.numactl\nshift 2\nexec "$@"\n')
    numactl.chmod(0o755)
    tests = request.getfixturevalue("tests")
    test = PathTest(End("n0", 0, "numa0"), End("n0", 0, "numa0"), size=65536)
    assert tests.measure([test])[test].error == ""
    assert Path(f"{log}.numactl").read_text().splitlines() == ["--membind=0 --cpunodebind=0"] * 2


def test_without_numactl_its_processors_are_that_nodes(log, monkeypatch, tmp_path, request):
    numa_of_node0(monkeypatch, tmp_path / "numa", has_numactl=False)
    tests = request.getfixturevalue("tests")
    test = PathTest(End("n0", 0, "numa0"), End("n0", 0, "numa0"), size=65536)
    assert tests.measure([test])[test].error == ""
    given = {line.split()[2] for line in log.read_text().splitlines()}
    assert given == {str(min(os.sched_getaffinity(0)))}


def test_a_loopback_stays_on_its_node(tests, log):
    test = PathTest(End("n1", 0), End("n1", 0), size=65536)
    assert tests.measure([test])[test].error == ""
    client = next(line for line in log.read_text().splitlines() if line.startswith("client"))
    assert client.endswith(" 127.0.0.1")


@pytest.mark.parametrize(
    ("changes", "memory", "word", "said"),
    [
        ({"abilities": {}}, "host", errors.NO_PERFTEST, "n1 has no ib_write_bw"),
        ({"ports": {}}, "host", errors.NO_DEVICE, "n1 rail 0 has no RDMA device with a GID"),
        ({}, "gpu0", errors.NO_GPU_MEMORY, "built without CUDA"),
        ({}, "numa7", errors.NOT_RUN, "n1 has no NUMA node 7"),
        ({"address": ""}, "host", errors.NOT_RUN, "no IPv4 address"),
        ({"why": "n1: no answer in 10 s"}, "host", errors.NOT_RUN, "no answer in 10 s"),
    ],
)
def test_what_cannot_run_has_the_reason_and_starts_nothing(probe, log, changes, memory, word, said):
    test = PathTest(End("n0", 0), End("n1", 0, memory), size=65536)
    with open_path_tests(probe, {"n0": survey(), "n1": survey(**changes)}, SETTINGS) as tests:
        result = tests.measure([test])[test]
    assert result.error == word
    assert said in result.said
    assert log.read_text() == ""


def test_perftest_that_went_away_since_the_survey_is_missing(tests, log):
    for program in log.parent.glob("ib_*"):
        program.unlink()
    # A machine with a perftest of its own has no device of this name.
    expected = errors.NO_DEVICE if shutil.which("ib_write_bw") else errors.NO_PERFTEST
    test = path("good")
    assert tests.measure([test])[test].error == expected


def test_an_interrupt_ends_everything_at_once(probe, log, monkeypatch):
    original = probe.run_all

    def interrupt(commands):
        if any(line.startswith("client") for line in log.read_text().splitlines()):
            raise KeyboardInterrupt
        return original(commands)

    with open_path_tests(probe, {"n0": survey(), "n1": survey()}, SETTINGS) as tests:
        session = vars(tests)["_session"]
        marks = list(vars(session)["_marks"].values())
        monkeypatch.setattr(probe, "run_all", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tests.measure([path("child", "good")])
        monkeypatch.setattr(probe, "run_all", original)
    assert session.left == {"n0": (), "n1": ()}
    assert until(lambda: not any(map(processes, marks)))


def test_without_a_controller_the_lease_ends_everything(probe, monkeypatch):
    monkeypatch.setattr("rdmaprov.acceptance.paths.session.LEASE_S", 1)
    monkeypatch.setattr("rdmaprov.acceptance.paths.session.STARTING_S", 0)
    with open_path_tests(probe, {"n0": survey(), "n1": survey()}, SETTINGS) as tests:
        session = vars(vars(tests)["_session"])
        # The last that goes; of a program that is only being started, no process has its mark yet.
        directories = [Path(each) for each in session["_directories"].values()]
        assert until(lambda: not any(each.exists() for each in directories))
        assert not any(map(processes, session["_marks"].values()))
        test = path("good")
        result = tests.measure([test])[test]
    assert result.error == errors.NOT_RUN
    assert "is gone" in result.said
