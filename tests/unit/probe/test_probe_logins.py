"""A node is reached as Ansible would, and a login that an sshd drops is tried again."""

import asyncio
import json
import os
import subprocess
import sys

import pytest
from tests.tables import cases
from tests.unit.helpers import sites
from tests.unit.helpers.local_node import here

from rdmaprov.errors import UsageError
from rdmaprov.probe import login, window
from rdmaprov.probe.errors import LoginDropped
from rdmaprov.probe.opening import Opening
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.session import CONNECTIONS, Limits
from rdmaprov.probe.window import Window, is_dropped

DROP = "echo 'kex_exchange_identification: Connection closed by remote host' >&2; exit 255"


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr(window, "WAITS_S", (0.02,) * 4)


def script(tries, *turns):
    """Return a shell text that does as each turn says, and then as the last."""
    cases = " ".join(f"{number}) {turn};;" for number, turn in enumerate(turns[:-1], 1))
    count = f"echo x >>{tries}; n=$(grep -c x {tries})"
    return f"{count}; case $n in {cases} *) {turns[-1]};; esac"


def ssh_that(tries, *turns):
    return here(argv=("/bin/sh", "-c", script(tries, *turns)))


def asked(target, text="echo hi"):
    probe = Probe({"n1": target})
    try:
        return probe.run("n1", text)
    finally:
        probe.close()


def test_login_that_is_dropped_is_tried_again(tmp_path):
    assert asked(ssh_that(tmp_path / "tries", DROP, DROP, 'eval "$0"')).out == "hi\n"
    assert (tmp_path / "tries").read_text() == "x\n" * 3


def test_login_that_is_always_dropped_is_named_with_its_remedy(tmp_path):
    with pytest.raises(LoginDropped, match=r"dropped the login .MaxStartups") as found:
        asked(ssh_that(tmp_path / "tries", DROP))
    assert "raise MaxStartups in sshd_config" in found.value.hint
    assert (tmp_path / "tries").read_text() == "x\n" * 5


def test_connection_that_is_lost_behind_its_login_is_not_made_again(tmp_path):
    """What a node was asked may have been done there."""
    lose = f"echo x >>{tmp_path}/runs; kill -9 $PPID"
    end = "echo 'Connection to n1 closed by remote host.' >&2; exit 255"
    target = ssh_that(tmp_path / "tries", f'(eval "$0"); {end}')
    with pytest.raises(Exception, match="connection ended"):
        asked(target, lose)
    assert (tmp_path / "tries").read_text() == (tmp_path / "runs").read_text() == "x\n"


@pytest.mark.parametrize("said", cases(__file__, "words_of_a_dropped_login"))
def test_words_of_a_dropped_login(said):
    assert is_dropped(said)


@pytest.mark.parametrize("said", cases(__file__, "words_of_another_end"))
def test_words_of_another_end(said):
    assert not is_dropped(said)


def test_window_halves_once_for_logins_of_one_round_and_grows_back():
    window = Window(8)
    began = window.round
    for _ in range(5):
        window.shrink(began)
    assert window.allowed == 4
    for _ in range(4 + 5 + 6 + 7 + 8 + 8):
        window.grow()
    assert window.allowed == 8
    for _ in range(9):
        window.shrink(window.round)
    assert window.allowed == 1


def test_logins_at_a_time_are_as_many_as_the_window_allows():
    async def most():
        opening, now, seen = Opening(4), 0, []

        async def one(number):
            nonlocal now
            async with opening as began:
                now += 1
                seen.append(now)
                await asyncio.sleep(0.001)
                if number < 2:
                    opening.window.shrink(began)
                now -= 1

        await asyncio.gather(*map(one, range(30)))
        return max(seen[:4]), max(seen[4:7])

    assert asyncio.run(most()) == (4, 3)


def test_connections_are_bounded_by_the_user(monkeypatch):
    monkeypatch.setenv(CONNECTIONS, "7")
    assert Limits().open == 7
    monkeypatch.setenv(CONNECTIONS, "many")
    with pytest.raises(UsageError, match="is no number"):
        Limits()


@pytest.fixture
def as_ansible(tmp_path, monkeypatch):
    """Provide what runs ssh as Ansible does; the script in ssh's place logs what it ran."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "place").mkdir()
    (tmp_path / "cp").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    program = login.write_program(tmp_path / "place", 2, 32)

    def run(name, *turns, command="module"):
        ssh = tmp_path / "bin/ssh"
        ssh.write_text(f'#!/bin/sh\nfor last; do :; done\necho "$last" >>{tmp_path}/ran\n')
        with ssh.open("a") as file:
            file.write(f'case "$*" in *-O*) echo "$*" >>{tmp_path}/ended; exit;; esac\n')
            file.write(script(tmp_path / "tries", *turns) + "\n")
        ssh.chmod(0o700)
        path = f'ControlPath="{tmp_path}/cp/{name}"'
        return subprocess.run(
            [program, "-o", path, name, command], capture_output=True, text=True, check=False
        )

    return run


def test_ansibles_login_is_tried_again_and_its_command_runs_once(as_ansible, tmp_path):
    done = as_ansible("n1", DROP, "exit 0", "cat; echo done")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert (tmp_path / "ran").read_text().split() == ["true", "true", "module"]


def test_ansibles_command_that_lost_its_connection_is_not_repeated(as_ansible, tmp_path):
    assert as_ansible("n1", "exit 0", DROP).returncode == 255
    assert (tmp_path / "ran").read_text().split() == ["true", "module"]


def test_node_that_refuses_ansibles_login_is_asked_once(as_ansible, tmp_path):
    done = as_ansible("n1", "echo 'n1: Permission denied (publickey).' >&2; exit 255")
    assert (done.returncode, done.stderr) == (255, "n1: Permission denied (publickey).\n")
    assert (tmp_path / "ran").read_text().split() == ["true"]


def test_reason_of_a_refused_login_reaches_who_still_sends_a_module(as_ansible, tmp_path):
    assert as_ansible("n1", "echo 'n1: no such name' >&2; exit 255").returncode == 255
    words = [tmp_path / "place/ssh", "-o", f'ControlPath="{tmp_path}/cp/n1"', "n1", "module"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as ansible:
        assert ansible.stdin
        assert ansible.stderr
        ansible.stdin.write(bytes(1 << 18))  # of a pipe without a reader, BrokenPipeError
        ansible.stdin.close()
        assert ansible.stderr.read() == b"n1: no such name\n"


def test_connections_that_ansible_keeps_are_bounded(as_ansible, tmp_path):
    for name in ("n1", "n2", "n3"):
        assert as_ansible(name, "exit 0").returncode == 0
    assert f"ControlPath={tmp_path}/cp/n1 -O stop" in (tmp_path / "ended").read_text()
    assert sorted(each.name for each in (tmp_path / "place/kept").iterdir()) == ["n2", "n3"]


SHOW = cases(__file__, "show")


def reached(place, *, cfg="", environment=None, **variables):
    """Return how n1, with variables, and n2 are reached."""
    return reached_all(place, [variables, {}], cfg, environment)


def reached_all(place, variables, cfg="", environment=None):
    """Return how n1, n2 and so on are reached, by a process that reads this ansible.cfg."""
    nodes = {f"n{unit}": {"unit": unit, **of} for unit, of in enumerate(variables, start=1)}
    hosts = json.dumps({"nodes": {"hosts": nodes}})
    sites.write(place / "site", {**sites.GOOD, "hosts.yml": f"---\n{hosts}"})
    if cfg:
        place.chmod(0o700)
        (place / "ansible.cfg").write_text(cfg)
    own = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
        env={**own, "HOME": str(place), **(environment or {})},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_plain_node_is_reached_by_its_name(tmp_path):
    (address, argv, python, connect_s, *shown), _ = reached(tmp_path)
    assert (address, python, connect_s) == ("n1", "python3", 10)
    assert shown == ["ssh n1", "n1"]
    assert argv[0] == "ssh"
    assert argv[-1] == "n1"
    assert "BatchMode=yes" in argv
    assert not any("StrictHostKeyChecking" in word for word in argv)
    assert not any("ControlPersist" in word for word in argv)


def test_variables_are_rendered_and_other_nodes_have_their_own(tmp_path):
    (address, argv, python, connect_s, *shown), (other, *_) = reached(
        tmp_path,
        ansible_host="10.0.0.{{ unit }}",
        ansible_port=2222,
        ansible_user="operator",
        ansible_ssh_private_key_file="~/key of mine",
        ansible_ssh_common_args="-J 'jump host'",
        ansible_ssh_extra_args="-o Compression=no",
        ansible_ssh_timeout=3,
        ansible_python_interpreter="/opt/python/bin/python3",
    )
    assert (address, connect_s, other) == ("10.0.0.1", 3, "n2")
    assert shown == ["ssh -p 2222 operator@10.0.0.1", "'[10.0.0.1]:2222'"]
    for words in (
        ["-o", "Port=2222"],
        ["-o", 'User="operator"'],
        ["-o", f'IdentityFile="{tmp_path}/key of mine"'],
        ["-J", "jump host"],
        ["-o", "Compression=no"],
        ["-o", "ConnectTimeout=3"],
    ):
        assert any(argv[at : at + 2] == words for at in range(len(argv))), words
    assert python == "/opt/python/bin/python3"


def test_what_ansible_cfg_and_the_environment_say_counts(tmp_path):
    general = "[defaults]\nremote_user = cfg\nhost_key_checking = false\n"
    cfg = general + "[ssh_connection]\nssh_args = -4\n"
    (_, argv, _, connect_s, *_), _ = reached(
        tmp_path, cfg=cfg, environment={"ANSIBLE_SSH_TIMEOUT": "7"}
    )
    assert 'User="cfg"' in argv
    assert "-4" in argv
    assert "StrictHostKeyChecking=no" in argv
    assert connect_s == 7


USERS = cases(__file__, "users")


def test_python_is_started_as_the_right_user(tmp_path):
    found = reached_all(tmp_path, [variables for variables, _ in USERS])
    assert [python for _, _, python, *_ in found] == [python for _, python in USERS]


REFUSED = [
    ({"ansible_password": "x"}, "ansible_password is set"),
    ({"ansible_connection": "docker"}, "ansible_connection is docker"),
    ({"ansible_become": True, "ansible_become_method": "su"}, "ansible_become_method is su"),
]


def test_what_this_connection_cannot_do_is_said(tmp_path):
    *refused, other = reached_all(tmp_path, [*(variables for variables, _ in REFUSED), {}])
    for unit, (said, (_, says)) in enumerate(zip(refused, REFUSED, strict=True), start=1):
        assert said.startswith(f"n{unit}: {says}")
        assert f"--hosts ansible://n{unit}" in said
    assert other[0] == f"n{len(REFUSED) + 1}"
