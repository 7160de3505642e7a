"""A record is asked in place of a node, and nothing else is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.record.test_record import BOOT_ID, NOT_CURED, READINGS, deep

from rdmaprov.drift.record import survey_readings
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NoAnswer, NodeError, NodeUnreachable
from rdmaprov.probe.recorded import RecordedProbe, RecordingProbe

ROOT = Path(__file__).resolve().parents[3]
LIMITS = {
    "limits": {
        "memlock": "unlimited",
        "memlock_users": [],
        "memlock_services": [],
        "sysctl": {"kernel.ostype": "Linux"},
    }
}


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


@pytest.mark.parametrize(
    "past",
    [
        "open('/etc/hostname')",
        "open('/tmp/rdmaprov-never', 'w')",
        "open(sys.prefix + '/rdmaprov-never', 'w')",
        "import os; os.open('/etc/hostname', os.O_RDONLY)",
        "import os; os.system('true')",
        "import os; os.remove('/tmp/rdmaprov-never')",
        "import subprocess; subprocess.run(['true'])",
        "import socket; socket.socket().connect(('127.0.0.1', 9))",
        "import ctypes; ctypes.CDLL('libc.so.6')",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')",
        "import tempfile; tempfile.mkdtemp()",
    ],
)
def test_replay_cannot_read_past_the_record(past):
    guard = "from plugins.module_utils.replay import forbid_reading\nforbid_reading()"
    code = f"import sys\n{guard}\n{past}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "NodeError: not in the record: " in done.stderr.splitlines()[-1]


def test_replay_still_imports():
    code = (
        "from plugins.module_utils.replay import forbid_reading\nforbid_reading()\n"
        "import ctypes, decimal, socket, subprocess, tempfile, urllib.request\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


class Says:
    """A probe that has one answer to everything."""

    live = False

    def __init__(self, said: Answer | NodeError) -> None:
        self.said = said

    def run(self, *_: Any) -> Answer:
        if isinstance(self.said, NodeError):
            raise self.said
        return self.said

    def run_all(self, commands: Any, *_: Any) -> Any:
        return dict.fromkeys(commands, self.said)

    def begin(self, text, _limit_s=None):
        raise AssertionError(f"nobody waits for {text}")

    def close(self) -> None:
        self.live = True


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("said", "kept", "lost"),
    [
        (Answer(3, "out", "err"), {"x": Answer(3, "out", "err")}, False),
        (NoAnswer("n1: no answer in 5 s: x", "Try"), {"x": "no answer in 5 s: x"}, False),
        (NodeUnreachable("n1: no route", "Try"), {}, True),
    ],
)
def test_what_a_node_says_is_kept_and_passed_on(said, kept, lost, together):
    probe = RecordingProbe(Says(said))
    if together:
        assert probe.run_all({"n1": Command("x", 5)}) == {"n1": said}
    elif isinstance(said, Answer):
        assert probe.run("n1", "x") == said
    else:
        with pytest.raises(type(said)):
            probe.run("n1", "x")
    assert probe.answers == kept
    assert (probe.lost is said) == lost
    probe.live = True
    assert probe.live
    found = RecordedProbe(probe.answers).run_all({"n1": Command("x", 5)})["n1"]
    assert isinstance(found, Answer) == isinstance(said, Answer)
