"""A run of 60 checks on each of 1,024 nodes that do not exist: what pytest itself costs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

NODES = 1024
CHECKS = 20  # of each of three kinds

VARIABLES = """\
fabric_kind: roce
fabric_link_gbps: 400
fabric_rails:
  - {netdev: ens1, address: "10.0.{{ unit // 200 }}.{{ unit % 200 + 1 }}/16"}
"""
# In place of the connection: every command is answered at once.
ANSWERS = """\
import re

from rdmaprov.probe import probe
from rdmaprov.probe.connection import Answer


def run(self, name, text, fresh=False, limit_s=None):
    if text.startswith("uname"):
        return Answer(0, "Linux\\n", "")
    if text.startswith("command"):
        return Answer(0, "/sbin/sysctl\\n", "")
    found = re.search(r"(\\d+)\\D*$", text)
    return Answer(0, found.group(1) if found else "", "")


probe.Probe.run = run
"""


def prepared() -> Path:
    """Return a new directory with a site, a suite and a plugin that answers."""
    at = Path(tempfile.mkdtemp(prefix="rdmaprov-synthetic-"))
    (at / "site/group_vars").mkdir(parents=True)
    (at / "suite").mkdir()
    (at / "home").mkdir()
    rows = "".join(f"    n{index:04}: {{unit: {index}}}\n" for index in range(1, NODES + 1))
    (at / "site/hosts.yml").write_text(f"nodes:\n  hosts:\n{rows}")
    (at / "site/group_vars/all.yml").write_text(VARIABLES)
    (at / "answers.py").write_text(ANSWERS)
    (at / "suite/pytest.ini").write_text("[pytest]\npythonpath = ..\n")
    (at / "suite/test_checks.py").write_text(
        "".join(
            f"def test_file{i}(host):\n    assert host.file('/etc/{i}').exists\n"
            f"def test_sysctl{i}(host):\n    assert host.sysctl('net.x{i}') == {i}\n"
            f"def test_run{i}(host, rail):\n    assert host.run('cat /sys/{i}').stdout == '{i}'\n"
            for i in range(CHECKS)
        )
    )
    return at


def command(at: Path) -> list[str]:
    """Return the command that judges them all."""
    return [
        sys.executable,
        "-c",
        "import sys; sys.path.insert(0, '.'); import answers, pytest; sys.exit(pytest.main())",
        "-q",
        "-p",
        "no:hypothesispytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "rdmaprov.validate.plugin",
        "suite",
        f"--inventory={at / 'site'}",
    ]
