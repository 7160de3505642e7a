"""No plan reads its node past Machine: it would be absent from a record."""

import ast
import errno
import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import plugins.module_utils
import pytest
from plugins.module_utils.machine import CommandFailed, Machine, NodeError
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.record import Recorder
from plugins.module_utils.replay import Replay
from plugins.module_utils.roles import ORDER
from plugins.module_utils.survey import survey
from tests.roles.fake import FakeMachine
from tests.roles.role_cases import CASES, Case, OfManager, carry_out
from tests.tables import cases

from rdmaprov.record.anonymous import Pseudonyms
from rdmaprov.record.scrub import Scrub
from rdmaprov.runs.masks import Mask

# Files whose code reads the node past Machine, and why that is no hole in a record.
PAST_MACHINE = cases(__file__, "past_machine")
READS = cases(__file__, "reads")


def reads_past_machine(text: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in READS.get(ast.unparse(node.value), ()):
            found.add(ast.unparse(node))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "open":
            found.add("open")
    return found


def test_every_reading_goes_through_machine():
    root = Path(plugins.module_utils.__path__[0])
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if reads_past_machine(path.read_text(encoding="utf-8"))
    }
    assert found == PAST_MACHINE.keys(), "ask it with machine.ask(), and say so here"


@pytest.mark.parametrize("text", ["os.stat(path)", "open(path)", "import pwd\npwd.getpwuid(0)"])
def test_reading_past_machine_is_found(text: str):
    assert reads_past_machine(text)


def planned(case: Case, machine: Machine) -> dict[str, Any]:
    found = survey(machine, {ORDER[0]: case.arguments}, lambda _, *given: case.role.plan(*given))
    return {key: value for key, value in found.items() if key != "boot_id"}


def recorded(case: Case, node: FakeMachine) -> tuple[dict[str, Any], dict[str, Any]]:
    recorder = Recorder(node)
    return planned(case, recorder), json.loads(json.dumps(recorder.record))


def test_plan_from_the_record_is_the_nodes(case: Case, tmp_path: Path):
    root = tmp_path / "node"
    node = case.node(root)
    before, first = recorded(case, node)
    carry_out(case, node)
    after, second = recorded(case, node)
    live = planned(case, node)
    shutil.rmtree(root, ignore_errors=True)  # what reads past Machine finds nothing now
    assert planned(case, Replay(first)) == before
    assert planned(case, Replay(second)) == after == live
    assert before["pending"]
    assert before["roles"] != after["roles"]


def as_changes(found: dict[str, Any]) -> list[tuple[str, str]]:
    (role,) = found["roles"].values()
    return [(change["layer"], change["setting"]) for change in role["changes"]]


@pytest.mark.parametrize("anonymous", [False, True])
def test_plan_of_a_clean_record_is_the_nodes(case: Case, tmp_path: Path, anonymous: bool):
    node = case.node(tmp_path / "node")
    before, first = recorded(case, node)
    carry_out(case, node)
    after, second = recorded(case, node)
    for live, readings in ((before, first), (after, second)):
        arguments = json.loads(json.dumps(case.arguments))
        whole = {"node": "gpu07", "checks": [], **readings, "arguments": arguments}
        clean = Scrub(Mask(["a-secret-of-the-site"])).data(whole)
        if anonymous and case.role is not OfManager:  # whose rails are no arguments
            clean = Pseudonyms(clean, random.Random(7)).data(clean)
        found = planned(replace(case, arguments=clean["arguments"]), Replay(clean))
        assert found["problems"] == live["problems"]
        assert found["pending"] == live["pending"]
        assert as_changes(found) == as_changes(live)


def test_file_that_has_a_secret_is_planned_as_on_the_node(tmp_path: Path):
    """The role keeps somebody's file under a name that depends on the text, secrets too."""
    case = CASES["nccl"]
    node = case.node(tmp_path / "node")
    node.put("/etc/nccl.conf", "NCCL_DEBUG=INFO\nHF_TOKEN=hf_a-token-of-somebody\n")
    live, readings = recorded(case, node)
    clean = Scrub(Mask([])).data(readings)
    assert "a-token-of-somebody" not in json.dumps(clean)
    found = planned(case, Replay(clean))
    assert found["problems"] == live["problems"] == []
    assert as_changes(found) == as_changes(live)
    assert "nccl.conf.backup-" in json.dumps(live["roles"])


def test_what_was_not_read_is_unknown():
    replay = Replay(Recorder(Machine("/nowhere")).record)
    for ask in (
        *(lambda: replay.read("/etc/fstab"), lambda: replay.names("/etc")),
        *(lambda: replay.exists("/etc"), lambda: replay.is_file("/etc/fstab")),
        *(lambda: replay.real("/etc"), lambda: replay.mode("/etc"), lambda: replay.access("/etc")),
        *(lambda: replay.stamp("/etc"), lambda: replay.has("sh"), lambda: replay.run(["true"])),
        *(lambda: replay.ask("anything", lambda: "live"), lambda: replay.write("/etc/fstab", "")),
        *(lambda: replay.set("/proc/sys/vm/swappiness", "1"), lambda: replay.remove("/etc/fstab")),
    ):
        with pytest.raises(NodeError, match=r"^not in the record: "):
            ask()


def test_answers_of_every_kind_come_back(machine: FakeMachine):
    machine.put("/etc/one")
    Path(machine.path("/etc/one")).write_bytes(b"text\xff\n")
    machine.link("/etc/two", "/etc/one")
    machine.programs = {"good": "out", "bad": CommandFailed(["bad"], 3, "no")}
    recorder = Recorder(machine)
    questions = (
        *(lambda node: node.read("/etc/one"), lambda node: node.read("/etc/none")),
        *(lambda node: node.names("/etc"), lambda node: node.names("/none")),
        *(lambda node: node.exists("/etc/two"), lambda node: node.exists("/none")),
        *(lambda node: node.is_file("/etc"), lambda node: node.real("/etc/two")),
        *(lambda node: node.mode("/etc/one"), lambda node: node.mode("/none")),
        *(lambda node: node.access("/etc/two"), lambda node: node.access("/none")),
        *(lambda node: node.stamp("/etc/one"), lambda node: node.has("good")),
        *(lambda node: node.has("none"), lambda node: node.run(["good", "words"])),
        lambda node: node.stands("/etc/one", "text\udcff\n", 0o644),
        *(lambda node: node.own(0o600), lambda node: node.path("/etc/one")),
        lambda node: node.ask("code", lambda: [1, {"a": None}]),
    )
    seen = [ask(recorder) for ask in questions]
    replay = Replay(json.loads(json.dumps(recorder.record)))
    assert [ask(replay) for ask in questions] == seen
    assert seen == [ask(machine) for ask in questions]
    with pytest.raises(CommandFailed):
        recorder.run(["bad"])
    with pytest.raises(CommandFailed, match=r"^bad: exit code 3: no$") as failed:
        Replay(recorder.record).run(["bad"])
    assert failed.value.code == 3


@pytest.mark.parametrize(
    "error",
    [
        NodeError("it is broken"),
        NotYet("no driver"),
        Refused("cannot be"),
        CommandFailed(["netplan"], 2, "why"),
        PermissionError(errno.EACCES, "Permission denied"),
    ],
)
def test_errors_come_back_as_they_were(machine: FakeMachine, error: Exception):
    def fail() -> None:
        raise error

    recorder = Recorder(machine)
    with pytest.raises(type(error)):
        recorder.ask("code", fail)
    replay = Replay(json.loads(json.dumps(recorder.record)))
    with pytest.raises(type(error)) as again:
        replay.ask("code", fail)
    assert type(again.value) is type(error)
    assert str(again.value) == str(error)


def test_what_code_of_ours_reads_to_find_out_is_not_kept(machine: FakeMachine):
    machine.put("/proc/7/environ", "TOKEN=canary")
    machine.programs = {"netplan get": "canary"}
    recorder = Recorder(machine)

    def find_out() -> str:
        recorder.names("/proc")
        recorder.exists("/proc/7")
        recorder.run(["netplan", "get"])
        return str(len(recorder.read("/proc/7/environ") or ""))

    assert recorder.ask("length", find_out) == "12"
    assert "canary" not in json.dumps(recorder.record)
    assert recorder.record["facts"] == {"ask length": "12"}


def test_command_that_ran_twice_is_kept_as_it_was_last(machine: FakeMachine):
    said = iter(["first", "second"])
    machine.programs = {"tool": lambda _: next(said)}
    recorder = Recorder(machine)
    for _ in range(2):
        recorder.run(["tool"], stdin="given")
    assert Replay(recorder.record).run(["tool"], stdin="given") == "second"
    with pytest.raises(NodeError, match="not in the record: tool"):
        Replay(recorder.record).run(["tool"])
