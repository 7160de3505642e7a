"""Nodes taken out of service and returned, and what Slurm's commands print, read."""

import errno
import itertools
import os
import random
import re
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.tables import cases
from tests.unit.helpers.waiting import Time

from rdmaprov.acceptance.launchers import allocation
from rdmaprov.cli import idle_nodes
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.scheduler.model import NodeStatus, our_reason
from rdmaprov.scheduler.no_scheduler import NoScheduler
from rdmaprov.scheduler.programs import SchedulerError, ask, most_bytes
from rdmaprov.scheduler.service import give_back, is_foreign, note, take_out
from rdmaprov.scheduler.slurm import Slurm, health_check_program
from rdmaprov.scheduler.slurm_text import fold_parts, parse_jobs, parse_nodes

IDLE = NodeStatus("n1", "idle", drains=False, busy=False, idle=True)
ADMINS = replace(IDLE, word="drained", drains=True, idle=False, reason="bad board")


class Made(NoScheduler):
    """One node; `later` has what happens to it at each look from the second one on."""

    name = "made"

    def __init__(self, status, *later):
        self.now, self.later, self.done = status, list(later), []

    def status(self, nodes):
        seen = self.now
        self.now = self.later.pop(0)(self.now) if self.later else self.now
        return dict.fromkeys(nodes, seen)

    def drain(self, node, reason):
        self.done.append(f"drain {node}: {reason}")
        self.now = replace(self.now, drains=True, idle=False, reason=reason)

    def resume(self, node):
        self.done.append(f"resume {node}")
        self.now = replace(self.now, drains=False, idle=not self.now.busy, reason="")

    def resume_command(self, node):
        return f"resume {node}"


keep = replace  # what happens to a node at a look: nothing
starts = partial(replace, busy=True, jobs=("7",))
ends = partial(replace, busy=False, jobs=())


def out(made, **options):
    return take_out(made, ["n1"], "replace", wait_s=10, clock=Time().clock, **options)["n1"]


OURS = replace(ADMINS, reason="rdmaprov: replace: validate failed")
OUR = ["drain n1: rdmaprov: replace"]
WAITED = "n1: idle (rdmaprov: replace) job 7; waiting up to 10.0 s"


@pytest.mark.parametrize(
    ("looks", "take_over", "done"),
    [
        ((IDLE,), False, OUR),
        ((IDLE, starts, keep, ends), False, OUR),
        ((ADMINS,), True, ["drain n1: rdmaprov: replace (was: bad board)"]),
        ((OURS,), False, []),
        ((replace(IDLE, word="down", idle=False, up=False, reason="Not responding"),), False, OUR),
    ],
    ids=["idle", "a job starts", "taken over", "drained by us already", "slurm's own reason"],
)
def test_node_is_drained_once_with_our_mark(looks, take_over, done):
    made = Made(*looks)
    assert out(made, take_over=take_over).is_ok
    assert made.done == done
    assert made.now.is_ours


@pytest.mark.parametrize(
    ("looks", "wanted", "done"),
    [
        ((starts(IDLE), keep, keep, ends), WAITED, OUR),
        ((ADMINS,), "n1: drained (bad board): somebody else's reason, which stays", []),
    ],
)
def test_job_is_waited_for_and_somebody_s_reason_stays(looks, wanted, done):
    said: list[str] = []
    made = Made(*looks)
    assert out(made, tell=said.append).is_ok
    assert (said, made.done, made.now.drains) == ([wanted], done, True)


@pytest.mark.parametrize(
    ("looks", "text", "is_ours"),
    [
        ((starts(IDLE),), "still in use after 10.0 s", True),
        ((starts(IDLE), keep, lambda _: IDLE), "it was drained, and is not any more: idle", False),
    ],
)
def test_job_that_does_not_end_and_somebody_who_resumes_leave_it_unknown(looks, text, is_ours):
    made = Made(*looks)
    found = out(made)
    assert found.code is ExitCode.UNKNOWN
    assert text in found.text
    assert made.now.is_ours == is_ours


def test_note_is_written_over_our_reason_alone():
    made = Made(replace(ADMINS, reason="rdmaprov: replace"))
    note(made, "n1", "validate failed")
    assert made.now.reason == "rdmaprov: validate failed"
    other = Made(ADMINS)
    note(other, "n1", "validate failed")
    assert other.done == []


def back(made, *, drained_by_us=True):
    return give_back(made, "n1", drained_by_us=drained_by_us, clock=Time().clock)


@pytest.mark.parametrize(
    ("look", "done"), [(replace(ADMINS, reason="rdmaprov: replace"), ["resume n1"]), (IDLE, [])]
)
def test_node_that_we_drained_is_returned_and_one_in_service_left(look, done):
    made = Made(look)
    assert back(made).is_ok
    assert made.done == done


@pytest.mark.parametrize("drained_by_us", [True, False])
def test_node_that_somebody_drained_since_is_left(drained_by_us):
    made = Made(ADMINS)
    found = back(made, drained_by_us=drained_by_us)
    assert (found.code, made.done) == (ExitCode.PENDING, [])
    assert found.text.endswith("Return it by hand: resume n1")


def test_slurm_s_own_reason_over_ours_is_returned_only_if_we_drained_it():
    rebooted = replace(ADMINS, reason="Node unexpectedly rebooted")
    assert back(Made(rebooted)).is_ok
    assert back(Made(rebooted), drained_by_us=False).code is ExitCode.PENDING


def test_node_whose_daemon_starts_late_is_waited_for_and_one_that_stays_away_not_resumed():
    away = replace(ADMINS, reason="rdmaprov: replace", up=False)
    assert back(Made(away, keep, lambda status: replace(status, up=True))).is_ok
    made = Made(away)
    assert (back(made).code, made.done) == (ExitCode.UNKNOWN, [])


def test_without_a_scheduler_nothing_is_waited_for():
    none = NoScheduler()
    assert take_out(none, ["n1"], "x", wait_s=0)["n1"].is_ok
    assert give_back(none, "n1", drained_by_us=True).is_ok


FIXTURES = Path(__file__).parents[2] / "fixtures/slurm"
SHOWN = (FIXTURES / "show_node.txt").read_text()
NAMES = ("n1", "n2", "n3", "n4")


def test_idle_drained_and_draining_nodes_of_a_real_slurm():
    found = parse_nodes(SHOWN, NAMES)
    assert [found[name].idle for name in NAMES] == [True, False, False, True]
    assert [found[name].drains for name in NAMES] == [False, True, True, False]
    assert [found[name].busy for name in NAMES] == [False, False, True, False]
    assert (found["n3"].reason, found["n3"].is_ours) == ("rdmaprov: replace", True)
    # A reason that imitates fields and lines changes no state.
    seen = (found["n2"].word, found["n2"].reason, found["n2"].is_ours)
    assert seen == ("idle+drain", "bad State=IDLE mainboard [x@y]", False)


PUBLIC = {each["version"]: each for each in yaml.safe_load((FIXTURES / "public.yml").read_text())}


@pytest.mark.parametrize("version", ["23.02", "23.11", "24.05", "24.11", "25.05", "25.11"])
def test_published_answer_of_each_version_is_read(version):
    expected, lines = PUBLIC[version]["expected"], PUBLIC[version]["text"]
    assert f" Version={version}." in lines
    (seen,) = parse_nodes(lines.replace("\n", " "), [lines.split()[0].split("=")[1]]).values()
    assert {name: getattr(seen, name) for name in expected} == expected
    assert seen.reason == ""


@pytest.mark.parametrize("user", ["root", "4711", "jo@corp.example", "CORP\\jo", "CORP\\jo doe"])
def test_reason_ends_before_who_set_it_and_what_newer_versions_add(user):
    (seen,) = parse_nodes(
        f"NodeName=n1 Arch=x86_64 State=IDLE+DRAIN Weight=1 Reason=bad [x@y] DIMM "
        f"[{user}@2026-11-23T23:34:39] Comment=a Extra=b InstanceId=c ReservationName=d\n",
        ["n1"],
    ).values()
    assert seen.reason == "bad [x@y] DIMM"


def test_reason_of_a_node_that_was_resumed_is_over():
    shown = (FIXTURES / "show_node_resumed.txt").read_text()
    for state, reason in (("IDLE", ""), ("IDLE+DRAIN", "bad cable"), ("DOWN", "bad cable")):
        (seen,) = parse_nodes(shown.replace("=IDLE", f"={state}"), ["n1"]).values()
        assert seen.reason == reason


def test_node_whose_daemon_does_not_answer_is_not_up_and_our_old_reason_nobodys_decision():
    found = parse_nodes((FIXTURES / "show_node_restarted.txt").read_text(), ("n3", "n4"))
    assert (found["n3"].up, found["n3"].busy, found["n4"].up) == (False, True, True)
    status = NodeStatus("n1", "down", False, False, False, up=False, reason="rdmaprov: replace")
    assert not is_foreign(status)
    assert is_foreign(replace(status, reason="bad cable"))


# Flags by Slurm's node_state_flag_string and node_state_string_complete; older versions' signs.
@pytest.mark.parametrize(
    ("word", "idle", "drains", "busy", "up"),
    cases(__file__, "state_is_read_in_every_version_s_words"),
)
def test_state_is_read_in_every_version_s_words(word, idle, drains, busy, up):
    status = parse_nodes(f"NodeName=n1 Arch=x86_64 State={word} ThreadsPerCore=1\n", ["n1"])["n1"]
    assert (status.idle, status.drains, status.busy, status.up) == (idle, drains, busy, up)


@pytest.mark.parametrize(
    "text", cases(__file__, "answer_that_does_not_say_a_node_s_state_is_an_error")
)
def test_answer_that_does_not_say_a_node_s_state_is_an_error(text):
    with pytest.raises(SchedulerError, match="cannot be read"):
        parse_nodes(text, ["n1"])


def test_jobs_are_given_to_each_of_their_nodes():
    text = "12|n1\n13_4|n[2-3]\n14+1|gpu-1-[01,03]\n15|\n"
    assert parse_jobs(text) == {
        "n1": ("12",),
        "n2": ("13_4",),
        "n3": ("13_4",),
        "gpu-1-01": ("14+1",),
        "gpu-1-03": ("14+1",),
    }
    assert parse_jobs("") == {}


@pytest.mark.parametrize("text", ["12\n", "x|n1\n", "12|n1 n2\n", "slurm_load_jobs error\n"])
def test_line_that_is_no_job_is_an_error(text):
    with pytest.raises(SchedulerError, match="cannot be read"):
        parse_jobs(text)


def test_reason_and_state_are_one_printable_line():
    assert our_reason('a "b"\n\x1b[31m$(c) état=x') == "rdmaprov: a b 31m (c) tat x"
    assert len(our_reason("x" * 500)) == 200
    status = NodeStatus("n1", "mixed+drain", True, True, False, True, "bad\x1b[2J", ("7", "8"))
    assert status.text == "mixed+drain (bad\\x1b[2J) jobs 7, 8"


# github.com/SchedMD/slurm, src/common/slurm_protocol_defs.c, node_state_flags: all of slurm-22.05
# and slurm-23.11, and what slurm-24.05, slurm-25.05 and slurm-25.11 have beside them.
FLAGS = ["CLOUD", "COMPLETING", "DRAIN", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "INVALID_REG", "FAIL"]
FLAGS += ["MAINTENANCE", "POWER_DOWN", "POWER_UP", "PERFCTRS", "POWERED_DOWN", "REBOOT_REQUESTED"]
FLAGS += ["REBOOT_ISSUED", "RESERVED", "RESUME", "NOT_RESPONDING", "PLANNED", "POWERING_UP"]
FLAGS += ["POWERING_DOWN", "BLOCKED", "EXTERNAL"]
FREE = {"CLOUD", "DYNAMIC_FUTURE", "DYNAMIC_NORM"}
AWAY = {"INVALID_REG", "FAIL", "REBOOT_ISSUED", "NOT_RESPONDING"}


@pytest.mark.parametrize("flag", FLAGS)
def test_each_flag_of_slurm_s_own_table_on_an_idle_node(flag):
    (seen,) = parse_nodes(f"NodeName=n1 Arch=x86_64 State=IDLE+{flag} Weight=1\n", ["n1"]).values()
    assert (seen.idle, seen.planned) == (flag in FREE, flag == "PLANNED")
    assert seen.up != (flag in AWAY or flag.startswith("POWER"))
    assert (seen.drains, seen.busy) == (flag == "DRAIN", flag == "COMPLETING")


PLANNED = ("IDLE", "IDLE+PLANNED+CLOUD", "IDLE+PLANNED+RESERVED")


def unfold(text):
    """Return names as Slurm's hostlist_create() does: the range of a name is at its end."""
    names = []
    for token in re.findall(r"(?:\[[^\]]*\]|[^,\[])+", text):
        assert "[" not in token or token.endswith("]"), f"Invalid hostlist: {token}"
        parts = re.split(r"\[([^\]]*)\]", token)
        choices = [[each] for each in parts]
        for at in range(1, len(parts), 2):
            pairs = [
                (one.partition("-")[0], one.rpartition("-")[2]) for one in parts[at].split(",")
            ]
            choices[at] = [f"{n:0{len(a)}}" for a, b in pairs for n in range(int(a), int(b) + 1)]
        names += ["".join(each) for each in itertools.product(*choices)]
    return names


class Commands:
    """Slurm's commands, started by a kernel that takes no word of 32 pages and no 2 MiB."""

    def __init__(self, monkeypatch):
        self.asked: list[list[str]] = []
        self.reserved: dict[str, list[str]] = {}
        monkeypatch.setattr(subprocess, "run", self.run)

    def run(self, argv, env, **_options):
        words = [*argv, *(f"{name}={text}" for name, text in env.items())]
        if max(map(len, words)) >= 131_072 or sum(len(word) + 9 for word in words) > 2 << 20:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        self.asked.append(argv)
        return subprocess.CompletedProcess(argv, 0, self.answer(argv).encode(), b"")

    def answer(self, argv):
        fields = dict(word.split("=", 1) for word in argv if "=" in word)
        if argv[:4] == ["scontrol", "-o", "show", "node"]:
            return "".join(f"NodeName={n} Arch=x State=IDLE Weight=1\n" for n in unfold(argv[4]))
        if argv[0] == "squeue":
            return "7|other[1-3]\n8|\n"
        if argv[0] == "sinfo":
            return "".join(f"{name}|idle|none\n" for name in unfold(argv[-1]))
        if argv[1] == "create":
            self.reserved[fields["reservationname"]] = unfold(fields["nodes"])
        if argv[1] == "delete":
            del self.reserved[fields["reservationname"]]
        return "".join(f"ReservationName={name} StartTime=\n" for name in self.reserved)


NUMBERED = [f"dgx-h100-r{n // 40:03}-nd{n % 40:02}" for n in range(10_000)]  # of 18 characters
IRREGULAR = [f"{random.Random(n).getrandbits(68):017x}z" for n in range(10_000)]


@pytest.mark.parametrize(("names", "parts"), [(NUMBERED, 1), (IRREGULAR, 2)])
def test_ten_thousand_names_arrive_through_every_command(monkeypatch, names, parts):
    commands = Commands(monkeypatch)
    assert list(Slurm().status(names)) == names
    assert [argv[0] for argv in commands.asked] == ["scontrol"] * parts + ["squeue"]
    Slurm().hold(names, "ours", 60)
    assert len(commands.reserved) == parts
    assert sorted(name for each in commands.reserved.values() for name in each) == sorted(names)
    commands.reserved["ours-too"] = []
    Slurm().release(names, "ours")
    assert list(commands.reserved) == ["ours-too"]
    assert allocation._nodes_in_use(names) == ""


def test_ten_thousand_names_go_into_one_allocation_or_are_refused():
    words = allocation.allocation_command(NUMBERED, 8, None, ())
    (folded,) = (word for word in words if word.startswith("--nodelist="))
    assert sorted(unfold(folded.partition("=")[2])) == NUMBERED
    with pytest.raises(UsageError, match="10,000 nodes are too long for one word"):
        allocation.allocation_command(IRREGULAR, 8, None, ())


def test_names_unfold_to_the_same_by_slurm_s_rule(monkeypatch):
    monkeypatch.setattr("rdmaprov.scheduler.slurm_text.most_bytes", lambda: 60)
    rng = random.Random(47)
    texts = ("n", "gpu-", "r{}-n", "r0{}b", "{}x", "rack{}-", "")
    for _ in range(200):
        names = {
            rng.choice(texts).format(rng.randrange(4))
            + rng.choice((f"{rng.randrange(12)}", f"{rng.randrange(12):03}", "7-ib", "a"))
            for _ in range(rng.randrange(1, 40))
        }
        parts = fold_parts(sorted(names))
        assert sorted(name for part in parts for name in unfold(part)) == sorted(names)
        assert all(len(part) <= 60 for part in parts)


def test_kernel_takes_the_longest_word_and_the_limit_is_near_its_own():
    assert ask(["/bin/true", "x" * most_bytes()], "") == ""
    with pytest.raises(SchedulerError, match="Argument list too long"):
        ask(["/bin/true", "x" * (most_bytes() + 8192)], "")


@pytest.mark.parametrize("program", ["/usr/sbin/nhc", "(null)"])
def test_health_check_program_is_read_from_slurm_s_configuration(monkeypatch, program):
    said = f"HealthCheckInterval     = 0 sec\nHealthCheckProgram      = {program}\n"
    monkeypatch.setattr("rdmaprov.scheduler.slurm.ask_slurm", lambda *_: said)
    assert health_check_program(()) == program.replace("(null)", "")


def test_planned_node_is_read_and_not_held(monkeypatch):
    lines = (f"NodeName={n} A=x State={s} B=y\n" for n, s in zip("abc", PLANNED, strict=True))
    status = parse_nodes("".join(lines), "abc")
    scheduler = SimpleNamespace(status=lambda _: status)
    monkeypatch.setattr(idle_nodes, "_scheduler", lambda _: scheduler)
    ready: Any = SimpleNamespace(nodes="abc", screen=SimpleNamespace(remark=print), only=list)
    assert list(idle_nodes.select_idle(ready)) == ["a", "b"]  # type: ignore[call-overload]
