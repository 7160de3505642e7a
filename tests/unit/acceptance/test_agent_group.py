"""What the ranks of a group decide together, and in which order a sweep goes, without torch."""

import json
import os
import socket
import struct
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Lock
from traceback import FrameSummary
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.tables import cases

from rdmaprov.acceptance.agent import links, rank
from rdmaprov.acceptance.agent.group import RankCommunicator, RankGroup
from rdmaprov.acceptance.agent.progress import EXIT_LATE, place
from rdmaprov.acceptance.agent.sweep import Sweep
from rdmaprov.acceptance.at_fault.waiting import elsewhere_sign

RANKS = 5
TASK = {"number": 3, "plane": "all rails", "groups": {"0": list(range(RANKS))}}


class Store:
    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.sums: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self._lock = Lock()

    def set(self, key: str, text: str) -> None:
        self.asked["set"] += 1
        self.texts[key] = text

    def get(self, key: str) -> bytes:
        self.asked["get"] += 1
        while key not in self.texts:
            pass
        return self.texts[key].encode()

    def add(self, key: str, number: int) -> int:
        with self._lock:
            self.asked["add"] += number > 0
            self.sums[key] += number
            return self.sums[key]


class NoCollectives:
    """Stands for torch.distributed: nobody may ask it for anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a decision went over the fabric: {name}")


WATCHED = cases(__file__, "watched")


@pytest.mark.waits
@pytest.mark.parametrize(("task", "status"), [(3, EXIT_LATE), (4, 0), (-1, 0)])
def test_a_step_ends_sooner_where_the_controller_says_so_of_its_task(tmp_path, task, status):
    script = WATCHED.format(here=str(tmp_path), task=task)
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, env={**os.environ, "RANK": "0"}, capture_output=True, check=False)
    late = [e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "late"]
    assert done.returncode == status, done.stderr
    assert [event["limit_s"] for event in late] == [0.5] * (status == EXIT_LATE)


def groups(store: Store) -> list[RankGroup]:
    watch = SimpleNamespace(begin_step=lambda: None, waiting_for=lambda _rank: nullcontext())
    return [
        RankGroup(
            cast(
                "Any",
                SimpleNamespace(
                    rank=rank,
                    per_node=1,
                    store=store,
                    watch=watch,
                    dist=NoCollectives(),
                    torch=NoCollectives(),
                    device=None,
                    on_gpu=False,
                ),
            ),
            TASK,
            0,
            RankCommunicator(NoCollectives(), "all"),
        )
        for rank in range(RANKS)
    ]


def test_ranks_agree_by_the_store_and_ask_it_once_each():
    """A ring over all ranks took a control plane of 4,096 ranks minutes."""
    store = Store()
    with ThreadPoolExecutor(RANKS) as pool:
        said = list(pool.map(lambda group: group.agree(lambda: f"by {group.rank}"), groups(store)))
    assert said == ["by 0"] * RANKS
    assert store.asked == {"set": 1, "get": RANKS - 1}


@pytest.mark.parametrize("who", [None, 0, 3])
def test_what_one_rank_found_all_learn_by_the_store(who):
    store = Store()
    with ThreadPoolExecutor(RANKS) as pool:
        said = list(pool.map(lambda group: group.is_any(group.rank == who), groups(store)))
    assert said == [who is not None] * RANKS
    assert store.asked == {"add": RANKS, "set": 1, "get": RANKS - 1}


@pytest.mark.parametrize(("limit_s", "proven", "cut"), [(100, [512, 64, 8], []), (1, [512], [64])])
def test_sweep_begins_with_the_largest_size(monkeypatch, limit_s, proven, cut):
    """If time runs out, it is small sizes that are missing, which no floor judges."""
    task = {"sizes": [8, 512, 64], "dtypes": ["float32"], "limit_s": limit_s}
    told: list[tuple[str, int]] = []
    group = SimpleNamespace(
        task=task,
        values=lambda: None,
        is_any=lambda _found: False,
        say=lambda event, **fields: told.append((event, fields["bytes"])),
    )

    def prove(sweep: Any, *_words: Any) -> None:
        sweep._used_s += 2

    monkeypatch.setattr(Sweep, "_prove", prove)
    Sweep(cast("RankGroup", group)).run()
    assert [size for event, size in told if event == "checked"] == proven
    assert [size for event, size in told if event == "cut"] == cut


def test_communicators_that_no_task_used_for_long_are_given_up_alike_on_both_ranks(monkeypatch):
    """A rank that idles in between gives up the same ones as its partner, under equal names."""

    def process(own: int) -> Any:
        made = cast("Any", object.__new__(rank.RankProcess))
        made.rank, made.per_node, made.on_gpu, made.planes = own, 1, False, {"all rails": {}}
        made.torch = made.dist = made.device = made.watch = None
        made._groups, made._made, made._used = {}, Counter(), {}
        return made

    names: list[str] = []

    def connect(_self: Any, _plane: Any, _ranks: Any, name: str) -> RankCommunicator:
        names.append(name)
        return RankCommunicator(None, name)

    monkeypatch.setattr(rank.RankProcess, "_connect", connect)

    def join(process: Any, number: int, *ranks: int) -> None:
        process.group({"number": number, "plane": "all rails", "groups": {"0": list(ranks)}}, 0)

    one, other = process(0), process(1)
    last = rank.KEPT_TASKS + 1
    for each in (one, other):
        join(each, 0, 0, 1)
    for number in range(1, last):
        join(one, number, 0, number + 1)
    for each in (one, other):
        join(each, last, 0, 1)
    first, same, again, alike = [name for name in names if "(0, 1)" in name]
    assert first == same != again == alike
    assert len(one._groups) <= rank.KEPT_TASKS + 1


MAIN = FrameSummary("/run/x/agent.pyz/agent/main.py", 40, "_perform_all")
WAIT = FrameSummary("/opt/torch/distributed/distributed_c10d.py", 3149, "all_reduce")
TIDY = FrameSummary("/opt/torch/library.py", 665, "_del_library")
HOOK = FrameSummary("/opt/site/sitecustomize.py", 16, "all_reduce")


@pytest.mark.parametrize(
    ("stack", "seen"),
    [
        ([MAIN, WAIT], ""),
        ([MAIN, WAIT, TIDY], ""),
        ([TIDY], ""),  # as seen of a rank that ended, on a busy machine
        ([MAIN, HOOK], "it was in /opt/site/sitecustomize.py:16 all_reduce"),
        ([MAIN, TIDY], "it was in /opt/torch/library.py:665 _del_library"),
    ],
)
def test_rank_is_accused_of_what_it_does_itself_alone(stack, seen):
    sign = elsewhere_sign({"where": place(stack)})
    assert sign == (f"{seen}, not in torch.distributed" if seen else "")


def test_connections_of_this_process_with_their_segments():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
    ):
        one.sendall(b"x" * 1_000_000)
        left = 1_000_000
        while left:
            left -= len(other.recv(65536))
        own = [each for each in links.connections() if each["from"] == "127.0.0.1"]
        # On a busy machine the kernel may repeat one: tcp_info has tcpi_total_retrans at byte 100.
        infos = [s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104) for s in (one, other)]
        again = {struct.unpack_from("=I", info, 100)[0] for info in infos}
        sent = max(each["segments"] for each in own if each["to"] == "127.0.0.1")
        # A loopback's segment carries 64 KiB at most, and no less than an Ethernet's.
        assert 1_000_000 / 65536 <= sent <= 1_000_000 / 1000
        assert {each["again"] for each in own if each["segments"] == sent} <= again


def test_bytes_that_devices_sent_meanwhile():
    before = links.sent_bytes()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as each:
        each.sendto(b"x" * 5000, ("127.0.0.1", 9))
    assert links.moved_bytes(before)["lo"] >= 5000
