"""Verbs on nodes behind a jump host with sshd's own MaxStartups, over a path of 20 ms each way."""

import contextlib
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.namespaced import hosts, needs_namespace
from tests.program import ARGV, encrypt_variable, start
from tests.tables import cases
from tests.unit.helpers.bastion import Bastion
from tests.unit.helpers.waiting import until

from rdmaprov.exit_codes import ExitCode

pytestmark = [
    pytest.mark.waits,
    pytest.mark.program,
    pytest.mark.skipif(os.geteuid() != 0, reason="a survey needs root"),
]

CHECK = "def test_it(host):\n    assert host.run('echo hi').rc == 0\n"
VERBS = cases(__file__, "verbs")
OFTEN = ("plan", "validate")
BY_VERB = [v if v in OFTEN else pytest.param(v, marks=pytest.mark.hours) for v in VERBS]
AWAY = ("unreachable", "could not read", "MaxStartups")


def said_by(bastion, verb):
    """Return what a verb printed; its exit code is that of nodes that are there, or 4."""
    (bastion.at / "test_own.py").write_text(CHECK)
    # The forks of four cores: those of two may begin too few logins at once for a drop.
    own = {"ANSIBLE_HOME": str(bastion.at / "ansible"), "COLUMNS": "300", "ANSIBLE_FORKS": "32"}
    done = start(*VERBS[verb], cwd=bastion.at, **own)
    said = done.stdout + done.stderr
    # No torch is there for ranks.
    right = {ExitCode.OK, ExitCode.PENDING, ExitCode.UNKNOWN} if verb != "accept" else {1, 4}
    assert done.returncode in right, said
    return said


@pytest.mark.parametrize("verb", ["validate", pytest.param("discover", marks=pytest.mark.long)])
def test_no_node_is_lost_though_logins_are_dropped(tmp_path, verb):
    with Bastion(tmp_path, 32, scanned=True) as bastion:
        said = said_by(bastion, verb)
        assert not [word for word in AWAY if word in said], said
        assert bastion.drops


def test_nodes_that_are_dead_or_hang_are_named_and_no_other(tmp_path):
    with Bastion(tmp_path, 16, dead=3, hung=2, variables={"ansible_ssh_timeout": 20}) as bastion:
        said = said_by(bastion, "validate")
    assert "16 passed, 5 unreachable (n[017-021])" in said, said


TIMES = {"started", "ended", "seconds", "began", "duration_s", "run", "uptime_s"}


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(one) for name, one in value.items() if name not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def logins(at):
    """Return how many logins the nodes and the jump host have seen."""
    logs = [(at / f"{name}.log").read_text() for name in ("node", "bastion")]
    return [log.count("Accepted publickey") for log in logs]


def test_verbs_find_by_a_relay_what_they_find_from_here(tmp_path):
    with Bastion(tmp_path, 3) as bastion:
        found: dict[str, list[Any]] = {"discover": [], "validate": []}
        for relay in ("", "bastion"):
            (bastion.site / "group_vars/nodes.yml").write_text(f"fabric_relay: '{relay}'\n")
            before = logins(tmp_path)
            found["discover"].append(start("discover", "site", cwd=tmp_path).stdout)
            said = start("validate", "site", "--json", "-", "-q", cwd=tmp_path).stdout
            found["validate"].append(without_times(json.loads(said)))
        after = logins(tmp_path)
        noted = start("check", "site", cwd=tmp_path)
    assert (noted.returncode, noted.stderr) == (ExitCode.OK, "site: 3 nodes, 0 problems\n")
    assert [now - then for now, then in zip(after, before, strict=True)] == [6, 2]  # by the relay
    for one in found.values():
        assert one[0] == one[1]
    assert found["validate"][0]["nodes"]
    assert "host_vars/n003.yml" in found["discover"][0]


SECRET = "not on a disk of the relay"
LIMITS = "limits_memlock_users: [nobody]\nlimits_memlock_services: []\nlimits_sysctl: {}\n"
MOUNTS = {"run": "/run", "limits.d": "/etc/security/limits.d", "pam.d": "/etc/pam.d"}


def new_nodes(bastion, way, lines):
    """Have nodes with directories of their own; only where a relay is no place is hidden."""
    file = bastion.site / "hosts.yml"
    made = json.loads(file.read_text())
    for name, node in made["nodes"]["hosts"].items():
        own = bastion.at / (way or "here") / name
        for each in MOUNTS:
            (own / "node" / each).mkdir(parents=True)
        hosts(own, "{}", MOUNTS)
        node["ansible_python_interpreter"] = str(own / "python")
    file.write_text(json.dumps(made))
    (bastion.site / "group_vars/nodes.yml").write_text(f"{LIMITS}fabric_relay: '{way}'\n{lines}")


def vaulted(at):
    (at / "password").write_text("sesame\n")
    option = ("--vault-password-file", "password")
    return encrypt_variable("nccl_socket_ifname", SECRET, at / "password"), option


def places(at):
    """Return the directories of the site below `at` that a relay has in memory now."""
    found = []
    for file in Path("/run").glob("rdmaprov-*/hosts.json"):
        with contextlib.suppress(OSError):
            found += [file.parent] if str(at) in file.read_text() else []
    return found


@needs_namespace
def test_plan_apply_and_revert_by_a_relay_are_those_from_here(tmp_path):
    found: dict[str, list[Any]] = {}
    lines, opens = vaulted(tmp_path)
    words = ("site", "--roles", "limits", "--json", "-", "-q", *opens)
    with Bastion(tmp_path, 1) as bastion:
        for way in ("", "bastion"):
            new_nodes(bastion, way, lines)
            before, found[way] = logins(tmp_path), []
            for verb in ("plan", "apply", "revert"):
                run = sorted(path.name for path in (tmp_path / "runs").glob("*-apply"))[-1:]
                each = run if verb == "revert" else []
                done = start(verb, words[0], *each, *words[1:], cwd=tmp_path)
                assert done.stdout, done.stderr
                found[way].append([done.returncode, json.loads(done.stdout)])
            after = logins(tmp_path)
        assert after[1] - before[1] == 3  # of the controller to the relay: one for each run
    states = [{one["state"] for one in each["nodes"].values()} for _, each in found["bastion"]]
    assert states == [{"pending"}, {"changed"}, {"changed"}]
    for one in found.values():
        one[2][1].pop("reverts")
    assert without_times(found[""]) == without_times(found["bastion"])


@pytest.mark.parametrize("is_killed", [False, True], ids=["ended", "killed"])
def test_secret_of_the_site_is_in_the_relays_memory_alone_and_goes(tmp_path, is_killed):
    lines, opens = vaulted(tmp_path)
    seen = {}
    with Bastion(tmp_path, 1) as bastion:
        new_nodes(bastion, "bastion", lines)
        words = ("plan", "site", "--roles", "limits", *opens)
        with subprocess.Popen([*ARGV, *words], cwd=tmp_path, stdout=-3, stderr=-3) as running:
            while running.poll() is None:
                for place in places(tmp_path):
                    with contextlib.suppress(OSError):
                        text = (place / "hosts.json").read_text()
                        seen[place] = (place.stat().st_mode & 0o7777, SECRET in text)
                if is_killed and (0o700, True) in seen.values():
                    running.kill()
                time.sleep(0.05)
        assert list(seen.values()) == [(0o700, True)]
        assert until(lambda: not any(place.exists() for place in seen), 30 * is_killed)
    for at in (tmp_path, Path("~/.ansible").expanduser()):
        assert subprocess.run(["grep", "-rqF", SECRET, at], check=False).returncode


def test_node_that_a_relay_cannot_reach_is_named_with_sshs_reason(tmp_path):
    with Bastion(tmp_path, 1, dead=1) as bastion:
        (bastion.site / "group_vars/nodes.yml").write_text("fabric_relay: bastion\n")
        done = start("plan", "site", "--roles", "hugepages", cwd=tmp_path)
    assert done.returncode == ExitCode.UNKNOWN
    assert (
        "n002: ssh: connection refused. Is sshd running there? Try: ssh bastion -t" in done.stdout
    )
    assert "2 nodes: 1 unchanged, 1 unreachable (n002)" in done.stdout


def test_relay_without_ansible_is_named_with_what_to_install(tmp_path):
    with Bastion(tmp_path, 2) as bastion:
        file = bastion.site / "hosts.yml"
        made = json.loads(file.read_text())
        made["away"]["vars"]["ansible_python_interpreter"] = "/usr/bin/python3"
        file.write_text(json.dumps(made))
        (bastion.site / "group_vars/nodes.yml").write_text("fabric_relay: bastion\n")
        done = start("plan", "site", "--roles", "hugepages", cwd=tmp_path)
    assert done.returncode == ExitCode.UNKNOWN
    assert "its relay bastion has no ansible-core" in done.stdout + done.stderr


@needs_namespace
def test_relay_that_dies_while_it_applies_leaves_its_nodes_unknown(tmp_path):
    with Bastion(tmp_path, 2) as bastion:
        new_nodes(bastion, "bastion", "")
        words = ("apply", "site", "--roles", "limits", "--json", "out.json")
        with subprocess.Popen([*ARGV, *words], cwd=tmp_path, stdout=-3, stderr=-3) as running:
            assert until(lambda: any((each / "artifacts").exists() for each in places(tmp_path)))
            bastion.end("relay")  # the path to it
            assert running.wait(120) == ExitCode.UNKNOWN
        nodes = json.loads((tmp_path / "out.json").read_text())["nodes"]
        assert until(lambda: not places(tmp_path))
    for node in nodes.values():
        assert node["state"] == "unreachable"
        assert node["problems"][0].startswith("its relay bastion: ")


# The first one is the quick one: pytest -k discover-3
@pytest.mark.hours
@pytest.mark.parametrize(
    ("verb", "runs", "count"),
    [
        pytest.param("discover", 3, 48, id="discover-3"),
        *(
            pytest.param(verb, runs, 128, id=f"{verb}-{runs}")
            for verb in VERBS
            for runs in [20 if verb in ("validate", "discover") else 5]
        ),
    ],
)
def test_no_node_is_lost_in_many_runs(tmp_path, verb, runs, count):
    with Bastion(tmp_path, count, scanned=True) as bastion:
        for _ in range(runs):
            said = said_by(bastion, verb)
            assert not [word for word in AWAY if word in said], said
        assert bastion.drops


@pytest.mark.long
@pytest.mark.parametrize("verb", BY_VERB)
def test_five_bad_nodes_of_128_are_named_and_no_other(tmp_path, verb):
    with Bastion(tmp_path, 123, dead=3, hung=2, variables={"ansible_ssh_timeout": 20}) as bastion:
        said = said_by(bastion, verb)
    away = "\n".join(line for line in said.splitlines() if any(word in line for word in AWAY))
    assert bastion.bad, away
    good = [f"n{number:03}" for number in range(1, 124)]
    assert [name for name in good if re.search(rf"\b{name}\b(?!-)", away)] == [], away


@pytest.mark.parametrize("count", [10, 11])
def test_check_notes_the_jump_host_of_many_nodes_alone(tmp_path, count):
    with Bastion(tmp_path, count) as bastion:
        done = start("check", "site", cwd=bastion.at)
    assert done.returncode == ExitCode.OK
    if count == 10:
        assert done.stderr == "site: 10 nodes, 0 problems\n"
    else:
        assert "more than 10 nodes are behind the jump host bastion" in done.stderr
        assert "MaxStartups" in done.stderr
