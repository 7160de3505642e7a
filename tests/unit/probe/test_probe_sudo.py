"""The password of sudo: given when it asks, tried once, shown nowhere."""

from __future__ import annotations

import sys

import pytest

from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.sudo import PROMPT
from rdmaprov.probe.target import Target

# As sudo -S asks: its prompt on standard error, three tries, each one line of its input, byte by
# byte. FREE is a sudo that asks nobody; ASKED has the tries.
SUDO = """\
import os, sys
prompt, command = sys.argv[sys.argv.index("-p") + 1], sys.argv[sys.argv.index("-u") + 2 :]
for _ in range(0 if os.environ.get("FREE") else 3):
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = b""
    while not line.endswith(b"\\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit("sudo: no password was provided")
        line += byte
    with open(os.environ["ASKED"], "ab") as tries:
        tries.write(line)
    if line == b"it is\\n":
        os.execvp(command[0], command)
    sys.stderr.write("Sorry, try again.\\n")
if not os.environ.get("FREE"):
    sys.exit("sudo: 3 incorrect password attempts")
os.execvp(command[0], command)
"""


def behind_sudo(tmp_path, password, free=""):
    """Return a node on which Python is started by a sudo that asks for "it is"."""
    sudo = tmp_path / "sudo.py"
    sudo.write_text(SUDO)
    seen = f'echo "$0" >>{tmp_path}/argv; export ASKED={tmp_path}/asked FREE={free}; eval "$0"'
    python = f"{sys.executable} {sudo} -S -p {PROMPT} -u root {sys.executable}"
    return Target("n1", "", ("/bin/sh", "-c", seen), python, 10, sys.executable, password)


@pytest.mark.parametrize("free", ["", "yes"])
def test_password_of_sudo_is_given_when_it_asks(tmp_path, free):
    target = behind_sudo(tmp_path, "it is", free)
    probe = Probe({"n1": target})
    answer = probe.run("n1", "cat; env; tr '\\0' ' ' </proc/$PPID/cmdline")
    probe.close()
    assert answer.rc == 0
    assert "it is" not in answer.out + answer.err + repr(target) + (tmp_path / "argv").read_text()
    assert (tmp_path / "asked").exists() is not bool(free)


def test_wrong_password_is_tried_once(tmp_path):
    probe = Probe({"n1": behind_sudo(tmp_path, "wrong")})
    with pytest.raises(NodeUnreachable, match="n1: sudo rejects the password") as refused:
        probe.run("n1", "true")
    probe.close()
    assert (tmp_path / "asked").read_text() == "wrong\n"
    assert "wrong" not in str(refused.value)
