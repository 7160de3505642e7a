"""`check --untrusted`: hostile sites are refused within limits, and nothing of them runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli import forked_check, hostile_sites
from tests.cli.hostile_site import Hostile
from tests.cli.hostile_sites import SITES

from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory.untrusted.limits import MOST_MEMORY_BYTES
from rdmaprov.resources import data_dir

# Runs a program from a small process: what it is forked from counts as its memory, too.
MEASURE = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True, errors="replace")
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"code": done.returncode, "out": done.stdout, "err": done.stderr,
    "bytes": used.ru_maxrss * 1024, "cpu_s": used.ru_utime + used.ru_stime}))
"""
TIMEOUT_S = 300

Check = Callable[[Path], dict[str, Any]]


def check(site: Path, *words: str, **environment: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "rdmaprov", "check", "--untrusted", str(site), *words]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *argv],
        cwd=site.parent,
        env={**os.environ, "NO_COLOR": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def check_forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Check]:
    """Return what `check` does, without a start of Python for each site."""
    site = tmp_path_factory.mktemp("first") / "site"
    Hostile("good", "").write(site, site.parent / "canary")
    with subprocess.Popen(
        [sys.executable, forked_check.__file__, str(site)],
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def check(site: Path) -> dict[str, Any]:
            assert process.stdin
            assert process.stdout
            print(site, file=process.stdin, flush=True)
            found: dict[str, Any] = json.loads(process.stdout.readline())
            return found

        yield check


def report(name: str, found: dict[str, Any], record: Any) -> None:
    record("cpu_s", round(found["cpu_s"], 2))
    record("megabytes", found["bytes"] // 1000**2)
    if path := os.environ.get("RDMAPROV_TESTS_FIGURES"):
        with Path(path).open("a") as stream:
            stream.write(f"{name} {found['cpu_s']:.2f} {found['bytes'] // 1000**2}\n")


def require_refused(found: dict[str, Any], says: str) -> None:
    assert found["code"] == ExitCode.INVALID_SITE, found
    said = found["out"] + found["err"]
    lines = [line for line in said.splitlines() if says in line[:400]]
    assert lines, said[:2000]
    assert all(";" in line for line in lines) or "hint:" in said, lines
    assert "Traceback" not in said
    assert all(each.isprintable() for each in said.splitlines())
    assert found["bytes"] < MOST_MEMORY_BYTES


@pytest.mark.parametrize("hostile", SITES, ids=lambda hostile: hostile.id)
def test_hostile_site_is_refused(
    hostile: Hostile, tmp_path: Path, check_forked: Check, record_property: Any
):
    site, canary = tmp_path / "site", tmp_path / "canary"
    hostile.write(site, canary)
    found = check_forked(site)
    report(hostile.id, found, record_property)
    require_refused(found, hostile.says)
    assert not canary.exists()


def test_ansible_is_neither_configured_nor_searched_for_plugins(tmp_path: Path):
    site, canary = tmp_path / "site", tmp_path / "canary"
    Hostile("good", "").write(site, canary)
    evil = tmp_path / "evil"
    evil.mkdir()
    for name in ("yaml", "host_group_vars", "evil"):
        (evil / f"{name}.py").write_text(f"open({str(canary)!r}, 'w')\n")
    kinds = ("inventory", "vars", "filter", "lookup", "test", "cache", "callback")
    text = "[defaults]\n" + "".join(f"{kind}_plugins = {evil}\n" for kind in kinds)
    (tmp_path / "ansible.cfg").write_text(text)  # in the working directory
    plugins = {f"ANSIBLE_{kind.upper()}_PLUGINS": str(evil) for kind in kinds}
    vault = {"ANSIBLE_VAULT_PASSWORD_FILE": str(evil / "evil.py")}
    found = check(site, ANSIBLE_CONFIG=str(tmp_path / "ansible.cfg"), **plugins, **vault)
    assert (found["code"], found["out"], found["err"]) == (0, "", "")
    assert not canary.exists()


def check_after(program: str, directory: Path, **environment: str) -> Any:
    """Return how `check --untrusted` of a good site ended, begun by a program."""
    site = directory / "site"
    Hostile("good", "").write(site, directory / "canary")
    return subprocess.run(
        [sys.executable, "-c", program, "check", "--untrusted", str(site)],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        cwd=directory,
        env={**os.environ, **environment},
    )


def test_settings_of_ansible_mean_nothing(tmp_path: Path):
    (tmp_path / "ansible.cfg").write_text("[defaults]\nforks = 77\n")
    program = (
        "import sys; from rdmaprov import cli; assert cli.run(sys.argv[1:]) == 0\n"
        "from ansible import constants\n"
        "print(constants.DEFAULT_FORKS, 'ansible.plugins.loader' in sys.modules)"
    )
    done = check_after(program, tmp_path, ANSIBLE_FORKS="88")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "5 False\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_unreadable_file_is_refused(tmp_path: Path):
    site = tmp_path / "site"
    Hostile("unreadable", "", make=hostile_sites.unreadable).write(site, tmp_path / "canary")
    require_refused(check(site), "cannot be read: Permission denied")


def test_site_that_is_a_link_is_refused(tmp_path: Path):
    Hostile("good", "").write(tmp_path / "good", tmp_path / "canary")
    (tmp_path / "site").symlink_to(tmp_path / "good")
    require_refused(check(tmp_path / "site"), "is a link")


def test_memory_is_limited_by_the_kernel(tmp_path: Path):
    program = (
        "import sys; from rdmaprov import cli; from rdmaprov.inventory.untrusted import load\n"
        "load.walk = lambda site: [bytearray(10**7) for _ in range(1000)]\n"
        "sys.exit(cli.run(sys.argv[1:]))"
    )
    done = check_after(program, tmp_path)
    assert done.returncode == ExitCode.INVALID_SITE
    assert "takes more than 500 MB of memory\nhint:" in done.stderr


def test_time_is_limited(tmp_path: Path):
    program = (
        "import sys; from rdmaprov import cli\n"
        "from rdmaprov.inventory.untrusted import limits, load\n"
        "limits.MOST_CPU_S = 1\n"
        "load.walk = lambda site: [0 for _ in iter(int, 1)]\n"
        "sys.exit(cli.run(sys.argv[1:]))"
    )
    done = check_after(program, tmp_path)
    assert done.returncode == ExitCode.INVALID_SITE
    assert "takes more than 1 s of CPU time\nhint:" in done.stderr


@pytest.mark.parametrize("option", ["--limit=n1", "--vault-password-file=/dev/null"])
def test_option_that_needs_ansible_is_refused(option: str, tmp_path: Path):
    site = tmp_path / "site"
    Hostile("good", "").write(site, tmp_path / "canary")
    found = check(site, option)
    assert found["code"] == ExitCode.USAGE
    assert "--untrusted excludes" in found["err"] or "is a directory" in found["err"]


@pytest.mark.parametrize("name", ["prod", "ib"])
def test_reference_site_passes(name: str, tmp_path: Path, record_property: Any):
    site = tmp_path / name
    shutil.copytree(data_dir("inventory") / name, site)
    found = check(site)
    report(name, found, record_property)
    assert (found["code"], found["out"], found["err"]) == (0, "", "")


@pytest.mark.long
def test_largest_site_passes(tmp_path: Path, record_property: Any):
    hosts = "".join(
        f"    n{i}: {{fabric_rails: ["
        + ", ".join(
            f"{{netdev: e{r}, address: 10.{r}.{i // 250}.{i % 250 + 1}/16}}" for r in range(8)
        )
        + "]}\n"
        for i in range(10_000)
    )
    files: dict[str, str | bytes | None] = {"hosts.yml": f"nodes:\n  hosts:\n{hosts}"}
    site = tmp_path / "site"
    Hostile("largest", "", files).write(site, tmp_path / "canary")
    found = check(site)
    report("largest", found, record_property)
    assert (found["code"], found["out"], found["err"]) == (0, "", "")
