"""A verb reads its site once: of 5,000 nodes that takes seconds."""

import json
import os
import re
import sys

import pytest
from tests.cli.test_lost_causes import VERBS
from tests.program import start
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.ssh_node import Sshd

pytestmark = [
    pytest.mark.waits,
    pytest.mark.program,
    pytest.mark.skipif(os.geteuid() != 0, reason="a survey needs root"),
]

# Ansible's plugin `script` starts it for each reading; who did is the parent's command line.
SCRIPT = "#!/bin/sh\n{ tr '\\0' ' ' < /proc/$PPID/cmdline; echo; } >> %s\ncat %s\n"

MORE = {"watch": ("--for", "5s")}


@pytest.mark.parametrize("verb", VERBS)
def test_verb_reads_its_site_once(tmp_path, verb):
    given = Sshd(tmp_path).variables("node.example")
    hosts = {"n1": {"unit": 1}, "n2": {"unit": 2}}
    shared = {**given, "ansible_python_interpreter": sys.executable}
    listed = {"nodes": {"hosts": [*hosts], "vars": shared}, "_meta": {"hostvars": hosts}}
    (tmp_path / "hosts.json").write_text(json.dumps(listed))
    files = {name: text for name, text in GOOD.items() if name != "hosts.yml"}
    log = tmp_path / "readings"
    files["hosts"] = SCRIPT % (log, tmp_path / "hosts.json")
    (write(tmp_path / "site", files) / "hosts").chmod(0o755)
    (tmp_path / "test_own.py").write_text("def test_it(host):\n    host.run_test('true')\n")
    own = {"ANSIBLE_HOME": str(tmp_path / "ansible"), "COLUMNS": "400"}
    done = start(*VERBS[verb], *MORE.get(verb, ()), cwd=tmp_path, **own)
    assert re.search(r"n1|n\[1-2\]|2 nodes", done.stdout + done.stderr), done
    readers = [line for line in log.read_text().splitlines() if "ansible-playbook" not in line]
    assert len(readers) == 1, readers
