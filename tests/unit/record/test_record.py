"""A record's file: its form, what is refused; and that it is asked in place of a node."""

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases
from tests.unit.helpers.shell import execute

from rdmaprov.boundary import OddAnswer
from rdmaprov.drift.record import survey_readings
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NoAnswer, NodeError, NodeUnreachable
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.recorded import RecordedProbe, RecordingProbe
from rdmaprov.record import document as file
from rdmaprov.record.document import (
    NodeRecord,
    RecordError,
    new_document,
    parse_record,
    to_bytes,
    written_site,
)

NOT_CURED = "/var/lib/rdmaprov/not-cured-by-reboot.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
READINGS: dict[str, Any] = {
    "root": "/",
    "user": [0, 0],
    "files": {"/etc/fstab": "none\n", NOT_CURED: None, BOOT_ID: "67b5\n"},
    "directories": {"/etc": ["fstab"]},
    "facts": {"has sh": True},
    "errors": {},
    "commands": [{"argv": ["uname", "-r"], "stdout": "6.1\n", "exit_code": 0}],
}
ANSWERS: dict[str, Answer | str] = {
    "uname -r": Answer(0, "6.1\n", ""),
    "false": Answer(1, "", "no\udcff"),
    "sleep 9": "no answer in 5 s",
}
VARIABLES = {"fabric_kind": "roce", "fabric_rails": [{"netdev": "ens1", "gpus": [0]}]}


def made(**changed: Any) -> dict[str, Any]:
    found = new_document("gpu07", "2026-11-23T12:00:00+00:00", VARIABLES, READINGS, ANSWERS)
    return {**found, **changed}


def parsed(**changed: Any) -> NodeRecord:
    return NodeRecord(parse_record(json.dumps(made(**changed)).encode()))


@pytest.mark.parametrize("compress", [True, False])
def test_record_comes_back(compress):
    found = NodeRecord(parse_record(to_bytes(made(), compress=compress)))
    assert found.document == made()
    assert (found.node, found.variables) == ("gpu07", VARIABLES)
    assert found.readings == READINGS
    assert found.answers == ANSWERS
    probe = RecordedProbe(found.answers)
    assert probe.run("gpu07", "false") == ANSWERS["false"]
    with pytest.raises(NoAnswer, match=r"^gpu07: no answer in 5 s"):
        probe.run("gpu07", "sleep 9")
    with pytest.raises(NoAnswer, match=r"^gpu07: not in the record: reboot"):
        probe.run("gpu07", "reboot")


@pytest.mark.parametrize("compress", [True, False])
def test_record_that_is_cut_anywhere_is_refused(compress):
    data = to_bytes(made(), compress=compress)
    for end in range(len(data) - (1 if compress else 2)):
        with pytest.raises(OddAnswer):
            parse_record(data[:end])


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        *cases(__file__, "wrong_values_are_refused"),
        ({"node": "n" * 300}, "wrong node"),
        ({"variables": {"fabric_rails": deep(40)}}, "wrong variables"),
        ({"facts": {"has sh": deep(40)}}, "wrong facts"),
    ],
)
def test_wrong_values_are_refused(changed, why):
    with pytest.raises(OddAnswer, match=why) as refused:
        parsed(**changed)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no record of rdmaprov"),
        (b"PK\x03\x04", "no record of rdmaprov"),
        (b"[]", "no record of rdmaprov"),
        (b"\xff\xfe{}", "other characters than ASCII"),
        (b"\x1f\x8bnothing", "cannot be decompressed"),
        (b'{"a": {' * 5000 + b"}", "not JSON"),
        (b'{"a": ' * 100_000 + b"1" + b"}" * 100_000, "not JSON"),
        (b'{"format": 1, "format": 2}', "has a key twice: format"),
        (b'{"format": NaN}', "wrong shape"),
        (b'{"format": ' + b"9" * 5000 + b"}", "a number of 5,000 characters"),
        (gzip.compress(b"{}", mtime=0) + b"more", "something behind its end"),
        (gzip.compress(b"{}", mtime=0)[:-4], "it is cut"),
    ],
)
def test_what_is_no_record_is_refused(data, why):
    with pytest.raises(OddAnswer, match=why):
        parse_record(data)


def test_large_file_and_bomb_are_refused_at_once(monkeypatch):
    bomb = gzip.compress(b"{" + b" " * (200 << 20))
    assert len(bomb) < 1_000_000
    begun = time.monotonic()
    with pytest.raises(OddAnswer, match="exceeds 96 MiB when it is decompressed"):
        parse_record(bomb)
    assert time.monotonic() - begun < 10
    monkeypatch.setattr(file, "MOST_FILE_BYTES", 100)
    with pytest.raises(OddAnswer, match="exceeds 0 MiB"):
        parse_record(to_bytes(made(), compress=True))


def test_file_that_is_no_record_names_itself_and_the_remedy(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(RecordError) as refused:
        file.read_record(tmp_path / "x.json")
    assert refused.value.message == f"{tmp_path / 'x.json'}: it has a wrong shape"
    assert refused.value.exit_code == 2
    assert "rdmaprov record" in refused.value.hint


@pytest.mark.parametrize("readings", [None, [], {}, {**READINGS, "more": 1}])
def test_node_without_readings_gives_no_record(readings):
    with pytest.raises(OddAnswer, match="no readings"):
        new_document("n1", "2026", {}, readings, {})


def test_site_of_a_record_is_written_nowhere_else():
    with written_site("..", {"fabric_kind": 'roce"\n- x'}) as site:
        assert [path.name for path in site.rglob("*")] == ["hosts.yml"]
        text = (site / "hosts.yml").read_text()
    assert json.loads(text.removeprefix("---\n"))["recorded"]["hosts"][".."] == {
        "fabric_kind": 'roce"\n- x'
    }
    assert not site.exists()


ROOT = Path(__file__).resolve().parents[3]
LIMITS = cases(__file__, "limits")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, "limits: not in the record: "),
        ({"root": "/\0"}, "limits: not in the record: "),
        (
            {"errors": {f"read {BOOT_ID}": ["NodeError", "gone"]}, "files": {NOT_CURED: None}},
            "gone",
        ),
        ({"files": {}}, f"not in the record: read {NOT_CURED}"),
        ({"files": {**READINGS["files"], NOT_CURED: deep(2)}}, "survey failed with exit code 1: "),
        ({"facts": {f"exists /proc/{n}": deep(9) for n in range(9)}}, "limits: not in the record"),
    ],
)
def test_survey_of_a_record_that_lacks_all_is_no_verdict(changed, why):
    found = survey_readings({**READINGS, **changed}, LIMITS)
    assert why in found.why
    assert found.survey is None or found.survey.problems


@pytest.mark.parametrize("past", cases(__file__, "replay_cannot_read_past_the_record"))
def test_replay_cannot_read_past_the_record(past):
    guard = "from plugins.module_utils.replay import forbid_reading\nforbid_reading()"
    code = f"import sys\n{guard}\n{past}"
    done = execute([sys.executable, "-c", code], cwd=ROOT)
    assert done.returncode == 1
    assert "NodeError: not in the record: " in done.stderr.splitlines()[-1]


def test_replay_still_imports():
    code = (
        "from plugins.module_utils.replay import forbid_reading\nforbid_reading()\n"
        "import ctypes, decimal, socket, subprocess, tempfile, urllib.request\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


class Says:
    def __init__(self, said: Answer | NodeError) -> None:
        self.said = said

    def run(self, *_: Any) -> Answer:
        if isinstance(self.said, NodeError):
            raise self.said
        return self.said

    def run_all(self, commands: Any, *_: Any) -> Any:
        return dict.fromkeys(commands, self.said)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("said", "kept", "lost"),
    [
        (Answer(3, "out", "err"), {"x": Answer(3, "out", "err")}, False),
        (NoAnswer("n1: no answer in 5 s: x", "Try"), {"x": "no answer in 5 s: x"}, False),
        (NodeUnreachable("n1: no route", "Try"), {}, True),
    ],
)
def test_what_a_node_says_is_kept_and_passed_on(said, kept, lost, together, monkeypatch):
    monkeypatch.setattr(Probe, "run", Says(said).run)
    monkeypatch.setattr(Probe, "run_all", Says(said).run_all)
    probe = RecordingProbe({})
    if together:
        assert probe.run_all({"n1": Command("x", 5)}) == {"n1": said}
    elif isinstance(said, Answer):
        assert probe.run("n1", "x") == said
    else:
        with pytest.raises(type(said)):
            probe.run("n1", "x")
    assert probe.answers == kept
    assert (probe.lost is said) == lost
    probe.close()
    found = RecordedProbe(probe.answers).run_all({"n1": Command("x", 5)})["n1"]
    assert isinstance(found, Answer) == isinstance(said, Answer)
