"""Tests of single paths by perftest, on the nodes' own connections."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.paths.session import PathSession, Step
from rdmaprov.acceptance.paths.survey import NodeSurvey
from rdmaprov.boundary import Document
from rdmaprov.perftest import errors
from rdmaprov.perftest.model import End, PathMeasurer, PathResult, PathTest
from rdmaprov.perftest.tool import options
from rdmaprov.perftest.tool.failures import cause, last_line, shown
from rdmaprov.perftest.tool.options import Abilities, Settings
from rdmaprov.perftest.tool.output import read_figures, read_mtu

# Until a server listens: it opens its device first. Our choice, ten times what that takes.
_LISTEN_S = 20.0
# Above the time of the traffic: connecting, and CUDA's start on a node of eight GPUs, which takes
# seconds. A client whose packets are lost gives up after 7 retries of 2^14 × 4.096 us or some more.
_SLACK_S = 30.0
# Above the limits of the programs themselves: polls, and a node that is busy.
_STEP_S = 30.0
# A night, as of ranks; without a controller, the lease ends a session long before.
_SESSION_S = 24 * 3600.0
_LOOPBACK = "127.0.0.1"
# perftest measures the clock in milliseconds, in which a busy processor may not have its turn: seen
# once in 24 tests on emulated ones. Three in a row are no chance. Our choice.
_CLOCK_TRIES = 3
# Reasons of node/path_runner.py.
_REASONS = {"missing": errors.NO_PERFTEST, "timeout": errors.TIMEOUT, "silent": errors.NO_SERVER}


class PathTests(PathMeasurer):
    """Runs tests side by side: servers first, and clients when all servers of the round listen."""

    def __init__(
        self, session: PathSession, surveys: Mapping[str, NodeSurvey], settings: Settings
    ) -> None:
        self._session = session
        self._surveys = surveys
        self._settings = settings

    def measure(self, tests: Sequence[PathTest]) -> Mapping[PathTest, PathResult]:
        """Run all tests at once and return what came of each; none is missing.

        A test that cannot run has the reason; the others run. One without a steady clock is run
        again.
        """
        found = self._measure_once(tests)
        for _ in range(_CLOCK_TRIES - 1):
            left = [test for test, result in found.items() if result.error == errors.NO_CLOCK]
            if not left:
                break
            found |= self._measure_once(left)
        return found

    def _measure_once(self, tests: Sequence[PathTest]) -> dict[PathTest, PathResult]:
        found = {test: result for test in tests if (result := self._refusal(test)) is not None}
        round_ = dict(enumerate(test for test in tests if test not in found))
        servers = self._serve(round_)
        clients = self._run(round_, servers)
        ended = self._end(round_)
        for number, test in round_.items():
            server = ended.get(number) or servers.get(number)
            listened = bool(servers.get(number, {}).get("port"))
            lost = [self._session.lost.get(end.node) for end in (test.receiver, test.sender)]
            why = lost[0] or lost[1] or ""
            found[test] = outcome(
                test,
                clients.get(number),
                server,
                listened=listened,
                lost=why,
                mtu=0 if test.is_loopback else self._settings.mtu,
            )
        return found

    def _refusal(self, test: PathTest) -> PathResult | None:
        """Return why a test cannot run at all; None if it can."""
        for end in (test.sender, test.receiver):
            survey = self._surveys.get(end.node, NodeSurvey(why="it was not asked"))
            word, said = _missing(test, end, survey)
            if word:
                return PathResult(test, error=word, said=said)
        if not test.is_loopback and not self._surveys[test.receiver.node].address:
            said = f"{test.receiver.node} has no IPv4 address that others reach"
            return PathResult(test, error=errors.NOT_RUN, said=said)
        return None

    def _serve(self, tests: Mapping[int, PathTest]) -> dict[int, Document]:
        steps: dict[str, Step] = {}
        for number, test in tests.items():
            step = steps.setdefault(test.receiver.node, {"serve": [], "limit_s": _LISTEN_S})
            step["serve"].append(self._program(number, test, test.receiver, "{port}"))
        return _by_number(self._session.take(steps, _LISTEN_S + _STEP_S))

    def _run(
        self, tests: Mapping[int, PathTest], servers: Mapping[int, Document]
    ) -> dict[int, Document]:
        steps: dict[str, Step] = {}
        for number, test in tests.items():
            if not (port := servers.get(number, {}).get("port")):
                continue
            program = self._program(number, test, test.sender, str(port))
            address = self._surveys[test.receiver.node].address
            program["argv"].append(_LOOPBACK if test.is_loopback else address)
            steps.setdefault(test.sender.node, {"run": []})["run"].append(program)
        least_s = 0.0 if self._settings.messages else float(self._settings.duration_s)
        return _by_number(self._session.take(steps, self._limit_s + _STEP_S, least_s))

    def _end(self, tests: Mapping[int, PathTest]) -> dict[int, Document]:
        steps: dict[str, Step] = {}
        for number, test in tests.items():
            steps.setdefault(test.receiver.node, {"end": []})["end"].append(number)
        return _by_number(self._session.take(steps, _STEP_S))

    @property
    def _limit_s(self) -> float:
        return self._settings.duration_s + _SLACK_S

    def _program(self, number: int, test: PathTest, end: End, port: str) -> dict[str, Any]:
        """Return what a runner needs to start one end."""
        survey = self._surveys[end.node]
        argv = options.words(
            test,
            end.memory,
            survey.ports[end.rail],
            port,
            self._settings,
            survey.abilities[options.program(test)],
        )
        assert argv is not None  # noqa: S101 - a test without its options was refused
        kind, place = options.memory_of(end.memory)
        # A server waits for its client, which starts when all servers listen.
        limit = self._limit_s + (_LISTEN_S + _STEP_S if port == "{port}" else 0)
        return {
            "id": number,
            "argv": argv,
            "numa": place if kind == "numa" else -1,
            "port": 0,
            "limit_s": limit,
        }


def _missing(test: PathTest, end: End, survey: NodeSurvey) -> tuple[str, str]:
    """Return the word for what an end lacks, and a sentence; empty if it lacks nothing."""
    program = options.program(test)
    if survey.why:
        return errors.NOT_RUN, survey.why
    if program not in survey.abilities:
        return errors.NO_PERFTEST, f"{end.node} has no {program}"
    if end.rail not in survey.ports:
        return errors.NO_DEVICE, f"{end.node} rail {end.rail} has no RDMA device with a GID"
    port, able = survey.ports[end.rail], survey.abilities[program]
    if options.words(test, end.memory, port, "0", Settings(), able) is None:
        return errors.NO_GPU_MEMORY, _why_no_gpu(end, program, able, test)
    kind, number = options.memory_of(end.memory)
    if kind == "numa" and number not in survey.numa_nodes:
        return errors.NOT_RUN, f"{end.node} has no NUMA node {number}"
    return "", ""


def _why_no_gpu(end: End, program: str, able: Abilities, test: PathTest) -> str:
    if able.gpu_options[0]:
        return f"{program} measures no {test.measures} of GPU memory"
    return f"{program} of {end.node} was built without CUDA and ROCm (--help)"


def _by_number(answers: Mapping[str, list[Document]]) -> dict[int, Document]:
    return {each["id"]: each for done in answers.values() for each in done}


@contextmanager
def open_path_tests(
    connection: Nodes, surveys: Mapping[str, NodeSurvey], settings: Settings
) -> Iterator[PathTests]:
    """Provide tests of paths; with the context, everything of them ends on the nodes."""
    session = PathSession(connection)
    able = [name for name, each in surveys.items() if each.abilities and each.ports]
    try:
        session.start(able, _SESSION_S)
        yield PathTests(session, surveys, settings)
    finally:
        session.stop()


def outcome(
    test: PathTest,
    client: Document | None,
    server: Document | None,
    *,
    listened: bool,
    lost: str,
    mtu: int = 0,
) -> PathResult:
    """Return the result of a test.

    Args:
        client: how the client ended; None if it was not started, or its node is lost.
        server: how the server ended; None likewise.
        mtu: bytes of RDMA's MTU that the path must have; 0 for any.
    """
    if client is not None and client["rc"] == 0:
        figures = read_figures(client["out"], test.size)
        if figures is not None and bool(figures.usec) == (test.measures == "latency"):
            seen = read_mtu(client["out"]) or mtu
            if seen < mtu:
                said = f"packets of {seen} B, expected {mtu} B"
                return PathResult(test, error=errors.SMALL_MTU, said=said)
            return PathResult(test, figures.gb_s, figures.usec)
    if lost and (client is None or server is None):
        return PathResult(test, error=errors.NOT_RUN, said=shown(lost))
    if not listened:
        word, said = _own_reason(server) if server else (errors.NOT_RUN, "")
        return PathResult(test, error=word or errors.NO_SERVER, said=said)
    return _failure(test, client, server)


def _failure(test: PathTest, client: Document | None, server: Document | None) -> PathResult:
    """Return the result of a test whose client ended without a number.

    A client whose server fails says only that it cannot read from it.
    """
    if client is None:
        return PathResult(test, error=errors.NOT_RUN)
    mine, said = cause(client["out"])
    theirs, server_said = cause(server["out"]) if server else ("", "")
    if mine in ("", errors.NO_ANSWER) and theirs:
        return PathResult(test, error=theirs, said=server_said)
    if mine:
        return PathResult(test, error=mine, said=said)
    word, said = _own_reason(client)
    if word == errors.NO_NUMBERS and server and (server["rc"] or 0) < 0 and not server["why"]:
        word, said = _own_reason(server)
    return PathResult(test, error=word, said=said)


def _own_reason(ended: Document) -> tuple[str, str]:
    """Return the word for how a perftest ended, and what it said last."""
    word, said = cause(ended["out"])
    last = said or last_line(ended["out"])
    if word or ended["why"] in _REASONS:
        return word or _REASONS[ended["why"]], last
    if ended["why"] and ended["why"] != "ended":
        return errors.NOT_RUN, shown(ended["why"])
    if (ended["rc"] or 0) < 0:
        return errors.KILLED, last or f"signal {-ended['rc']}"
    return errors.NO_NUMBERS, last or f"exit status {ended['rc']}"
