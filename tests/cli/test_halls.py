"""Nodes in two halls, each behind a relay: judged as from here, also when a relay dies."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from tests.cli.test_bastion import without_times
from tests.program import ARGV, start
from tests.tables import cases
from tests.unit.helpers.fleet import Fleet
from tests.unit.helpers.waiting import until

from rdmaprov.exit_codes import ExitCode

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces"),
    pytest.mark.skipif(shutil.which("sshd", path="/usr/sbin") is None, reason="needs sshd"),
]

COUNT, HALLS = 6, 2
SITE = cases(__file__, "site")
# Each node says that it was asked, and answers when it is allowed to.
CHECKS = cases(__file__, "checks")


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(COUNT, HALLS) as made:
        (made.site / "group_vars").mkdir()
        (made.site / "group_vars/all.yml").write_text(json.dumps(SITE))
        (made.directory / "test_own.py").write_text(CHECKS.format(at=made.directory))
        yield made


def asked(fleet: Fleet) -> int:
    file = fleet.directory / "asked"
    return len(file.read_text().split()) if file.exists() else 0


def logins(fleet: Fleet) -> list[int]:
    return [log.read_text().count("Accepted publickey") for log in fleet.relay_logs]


def test_nodes_of_two_relays_are_judged_as_from_here(fleet: Fleet) -> None:
    (fleet.directory / "go").touch()
    found = []
    for by_relay in (False, True):
        fleet.write_hosts(by_relay=by_relay)
        before = logins(fleet)
        done = start("validate", fleet.site, "test_own.py", "--json", "-", "-q",
                     cwd=fleet.directory)  # fmt: skip
        assert done.returncode == ExitCode.FAILED, done.stdout + done.stderr
        found.append(without_times(json.loads(done.stdout)))
        by = [now - then for now, then in zip(logins(fleet), before, strict=True)]
        assert by == [int(by_relay)] * HALLS
    assert found[0] == found[1]
    assert [name for name, one in found[0]["nodes"].items() if one["state"] == "failed"] == ["n001"]


@pytest.mark.parametrize("stand_in", [False, True])
def test_relay_that_dies_leaves_its_own_nodes_to_another_or_unknown(
    fleet: Fleet, stand_in: bool
) -> None:
    fleet.write_hosts(by_relay=True, stand_in=stand_in)
    words = ("validate", str(fleet.site), "test_own.py", "--json", "out.json")
    with subprocess.Popen([*ARGV, *words], cwd=fleet.directory, stdout=-3, stderr=-3) as running:
        assert until(lambda: asked(fleet) == COUNT, 120)
        fleet.end_relay(1)
        (fleet.directory / "go").touch()
        assert running.wait(300) == ExitCode.FAILED
    data = json.loads((fleet.directory / "out.json").read_text())
    states = {name: one["state"] for name, one in data["nodes"].items()}
    lost = dict.fromkeys(("n003", "n004", "n005"), "passed" if stand_in else "unknown")
    assert states == {"n000": "passed", "n001": "failed", "n002": "passed", **lost}
    took = [(one["relay"], one["by"]) for one in data.get("relays", ())]
    assert took == [("relay1", "relay0")] * stand_in
    (page,) = fleet.directory.glob("runs/*/report.html")
    assert ("relay0 stands in for relay1" in page.read_text()) == stand_in
    if stand_in:
        return
    why = {one["node"]: one["message"] for one in data["checks"] if one["node"] in lost}
    assert why.keys() == lost.keys()
    for name, message in why.items():
        assert message.startswith(f"{name}: its relay relay1: the connection ended"), message
