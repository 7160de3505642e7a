"""How a node is reached: as Ansible would, from variables, ansible.cfg and the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.unit.helpers import sites

SHOW = """
import json, sys
from pathlib import Path
from rdmaprov.inventory import load_site
from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.ansible_targets import Targets
fleet, targets = load_site(Path("site")), Targets()
for node in fleet.nodes:
    try:
        found = targets.of(node.name, fleet.variables(node.name))
        print(json.dumps([found.address, found.argv, found.python, found.connect_s,
                          found.login_command, found.key_name]))
    except NodeError as error:
        print(json.dumps(str(error)))
"""


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


USERS = [
    ({"ansible_become": True}, "sudo -H -S -n -n -u root python3"),
    ({"ansible_become": "yes", "ansible_become_user": "x y"}, "sudo -H -S -n -n -u 'x y' python3"),
    ({"ansible_become": False, "ansible_become_user": "root"}, "python3"),
    ({"ansible_become": False, "ansible_become_password": "x"}, "python3"),
    (
        {"ansible_become": True, "ansible_become_password": "{{ unit }}x"},
        "sudo -H -S -S -p rdmaprov-prompt -u root python3",
    ),
    (
        {"ansible_become": True, "ansible_become_pass": "x", "ansible_become_flags": "-EnH"},
        "sudo -EH -S -p rdmaprov-prompt -u root python3",
    ),
    ({"ansible_python_interpreter": "auto_silent"}, "python3"),
    ({"ansible_python_interpreter": "/usr/bin/env python3"}, "/usr/bin/env python3"),
]


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
