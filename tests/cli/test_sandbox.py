"""`check` of a stranger's site by the command of docs/strangers.md: nothing leaves the sandbox."""

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.hostile_sites import SITES, Hostile
from tests.tables import cases
from tests.unit.helpers.shell import execute

from rdmaprov.exit_codes import ExitCode
from rdmaprov.resources import data_dir

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "strangers.md"
OF_FILE, OF_ENVIRONMENT = SECRETS = ("hunter2", "swordfish")
TIMEOUT_S, LIMIT_S = 200, "20"
# Each of the others does what one of these does, to another reader: minutes in all.
USUAL = ("script", "lookup", "ansible-cfg", "sparse")
# An inventory that Ansible runs: it writes and connects wherever it can, and has what it read of a
# file and of the environment stand in a problem that `check` prints.
GREEDY = cases(__file__, "greedy")


def documented() -> list[str]:
    found = re.search(r"^timeout .*(?:\\\n.*)*bwrap(?:.*\\\n)*.*$", PAGE.read_text(), re.MULTILINE)
    assert found
    return shlex.split(found[0].replace("\\\n", ""))


def sandboxed(site: Path) -> list[str]:
    words = documented()
    # A site that would never be read to its end is ended sooner.
    own = {"/opt/rdmaprov": sys.prefix, "inventory/prod": str(site), "120": LIMIT_S}
    words = [own.get(word, word).replace("/opt/rdmaprov/", f"{sys.prefix}/") for word in words]
    program = words.index("rdmaprov")
    shown = [CHECKOUT, Path(sys.base_prefix)]  # what an installed program has in its directory
    binds = [word for path in shown for word in ("--ro-bind", str(path), str(path))]
    words[program:program] = binds
    return words


def run(words: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return execute(
        words,
        cwd=directory,
        env={**os.environ, "AWS_SECRET_ACCESS_KEY": OF_ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        errors="replace",
        timeout=TIMEOUT_S,
    )


def check(site: Path) -> subprocess.CompletedProcess[str]:
    return run(sandboxed(site), site.parent)


@pytest.fixture
def port() -> Iterator[tuple[int, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        yield server.getsockname()[1], server


@pytest.mark.parametrize("name", ["prod", "ib"])
def test_reference_site_is_valid(name: str):
    done = check(data_dir("inventory") / name)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith(" nodes, 0 problems\n")


def test_greedy_site_gets_nothing(tmp_path: Path, port: tuple[int, socket.socket]):
    number, server = port
    secret, canary, site = tmp_path / "secret", tmp_path / "canary", tmp_path / "site"
    secret.write_text(OF_FILE)
    script = GREEDY.format(canary=canary, secret=secret, port=number, python=sys.executable)
    Hostile("greedy", {"hosts.yml": None, "greedy.sh": script}).write(site, canary)
    done = check(site)
    assert "got:" in done.stdout, "Ansible did not run it"
    assert [each for each in SECRETS if each in done.stdout + done.stderr] == []
    assert not canary.exists()
    assert not (site / "canary").exists()
    with pytest.raises(TimeoutError):
        server.accept()
    # Outside, the same site gets all of it.
    said = run([sys.executable, "-m", "rdmaprov", "check", str(site)], tmp_path).stdout
    assert all(each in said for each in SECRETS)
    assert canary.exists()
    assert (site / "canary").exists()
    server.accept()[0].close()


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(each, id=each.id, marks=() if each.id in USUAL else pytest.mark.long)
        for each in SITES
    ],
)
def test_hostile_site_does_nothing_outside(hostile: Hostile, tmp_path: Path):
    site, canary = tmp_path / "site", tmp_path / "canary"
    hostile.write(site, canary)
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    # Valid, invalid, our own refusal; ended by its limit of memory or of time.
    assert check(site).returncode in {*ExitCode, 1, 124, 134, 137, -6, -9}
    assert not canary.exists()
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_option_that_is_gone_says_so(tmp_path: Path):
    words = [sys.executable, "-m", "rdmaprov", "check", "--untrusted", str(tmp_path)]
    done = execute(words, timeout=TIMEOUT_S)
    assert done.returncode == ExitCode.USAGE
    assert "--untrusted is gone" in done.stderr
    assert "docs/strangers.md" in done.stderr
