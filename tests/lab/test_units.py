"""Ranks as units of a real systemd: however they end, it is known why and nothing is left."""

import base64
import json
import secrets
import time
from typing import Any

import pytest

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import ask_nodes, connect, program_command
from rdmaprov.inventory import load_site

pytestmark = pytest.mark.lab

STATE = "factory"
SHARED = True
NODE = "node1"
LIMIT_S = 300  # of emulated nodes, which take a minute to fill half a gigabyte
SLEEP = "sleep 601 & setsid sleep 601 & exec sleep 601"
# In pieces: one large allocation is refused at once, and no process is killed for it.
HUNGRY = "exec python3 -c 'x = []\nwhile 1: x.append(bytearray(b\"x\") * (8 << 20))'"


class Ranks:
    def __init__(self, lab: Any, connection: Any, script: str, limit_s: float = 600) -> None:
        self.lab, self.connection = lab, connection
        self.mark = f"rdmaprov-accept-test-{secrets.token_hex(4)}"
        request = {
            "verb": "start",
            "argv": ["/bin/sh", "{directory}/script"],
            "environment": {},
            "files": {"script": base64.b64encode(script.encode()).decode()},
            "lease_s": 600,
            "limit_s": limit_s,
        }
        command = program_command("supervisor", request, LIMIT_S, self.mark)
        answer = ask_nodes(connection, {NODE: command}, lambda _: shapes.STARTED)[NODE]
        assert answer == {"directory": f"/run/{self.mark}"}

    def run(self, text: str) -> str:
        return str(self.lab.run(NODE, text)).strip()

    def wait(self, text: str, wanted: str) -> bool:
        """Return whether a command comes to print this."""
        end = time.monotonic() + LIMIT_S
        while self.run(text) != wanted and time.monotonic() < end:
            time.sleep(1)
        return self.run(text) == wanted

    def is_running(self) -> bool:
        return self.wait(f"systemctl is-active {self.mark}.service || true", "active")

    def status(self) -> dict[str, Any]:
        assert self.wait(f"grep -c '\"rc\": null' /run/{self.mark}/status || true", "0")
        seen: dict[str, Any] = json.loads(self.run(f"cat /run/{self.mark}/status"))
        return seen

    def stop(self) -> None:
        command = program_command("supervisor", {"verb": "stop", "mark": self.mark}, LIMIT_S)
        answer = ask_nodes(self.connection, {NODE: command}, lambda _: shapes.STOPPED)[NODE]
        assert answer == {"left": []}
        left = "systemctl list-units --all --no-legend 'rdmaprov-accept*'; pgrep -a sleep"
        assert self.run(f"{left}; ls -d /run/rdmaprov-accept* 2>/dev/null; true") == ""


@pytest.fixture
def start(lab):
    with connect(load_site(lab.site)) as connection:
        yield lambda script, **limits: Ranks(lab, connection, script, **limits)


def test_ranks_of_a_unit_end_all_at_once(start):
    ranks = start(SLEEP)
    assert ranks.is_running()
    shown = ranks.run(f"systemctl show {ranks.mark}.service -p OOMPolicy -p TasksMax -p BindsTo")
    assert set(shown.splitlines()) == {
        "OOMPolicy=kill",
        "TasksMax=infinity",
        f"BindsTo={ranks.mark}-keeper.service",
    }
    ranks.stop()


def test_ranks_that_are_stopped_end_too(start):
    ranks = start(SLEEP)
    assert ranks.is_running()
    ranks.run(f"systemctl kill -s STOP {ranks.mark}.service")
    ranks.stop()


def test_ranks_end_with_their_keeper(start):
    ranks = start(SLEEP)
    assert ranks.is_running()
    ranks.run(f"systemctl kill -s KILL {ranks.mark}-keeper.service")
    assert ranks.wait("pgrep -a sleep || true", "")
    ranks.stop()


@pytest.mark.parametrize(
    ("script", "limit_s", "rc", "why"),
    [
        ("kill -9 $$", 600, -9, "killed by signal 9"),
        (SLEEP, 3, 124, "timed out after 3 s"),
        (HUNGRY, 600, -9, "killed by the kernel: out of memory"),
        ("setsid sleep 601 & exit 0", 600, 0, ""),
    ],
    ids=["killed", "late", "memory", "well"],
)
def test_status_has_why_ranks_ended(start, script, limit_s, rc, why):
    ranks = start(script, limit_s=limit_s)
    seen = ranks.status()
    assert (seen["rc"], seen["why"]) == (rc, why)
    ranks.stop()
