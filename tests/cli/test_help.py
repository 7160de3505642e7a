"""Help and completion answer at once; a mistake in the words is told before any work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rdmaprov.cli import run
from rdmaprov.exit_codes import ExitCode

HEAVY = (
    *("ansible", "ansible_runner", "asyncio", "ClusterShell", "jinja2", "matplotlib", "numpy"),
    *("pytest", "rich", "ruamel", "testinfra", "yaml"),
)
ASKED = f"""
import sys
{{}}
print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
EVERY_HELP = "from rdmaprov.cli import document; document.markdown()"
COMPLETION = "from rdmaprov.cli import cli; cli.main(['x'], 'rdmaprov', standalone_mode=False)"


@pytest.mark.parametrize(
    ("code", "environment"),
    [
        (EVERY_HELP, {}),
        (
            f"try: {COMPLETION}\nexcept SystemExit: pass",
            {"_RDMAPROV_COMPLETE": "bash_complete", "COMP_WORDS": "rdmaprov ", "COMP_CWORD": "1"},
        ),
    ],
    ids=["help of every command", "completion of a verb"],
)
def test_what_only_shows_options_imports_nothing_heavy(tmp_path, code, environment):
    done = subprocess.run(
        [sys.executable, "-c", ASKED.format(code)],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.strip() == "[]"


def test_option_in_the_site_s_place_is_named(capsys):
    assert run(["validate", "-q", "dead"]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "the site must come before -q" in error
    assert "hint:  Run: rdmaprov validate SITE -q" in error
