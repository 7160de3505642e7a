"""The tests with a real Slurm once more, with Debian 13's: 24.11, beside the 22.05 of Debian 12."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.helpers.shell import execute
from tests.unit.helpers.slurm_cluster import OTHER, PROGRAMS

ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/unit/scheduler/test_scheduler_slurm.py",
    "tests/unit/acceptance/test_launcher_slurm.py",
    *(f"tests/cli/test_{name}.py" for name in ("idle", "rolling_apply", "replace", "health_check")),
)
DAEMONS = ("munged", "slurmctld", "slurmd")
ASKED = ("sbatch", "squeue", "sinfo", "scontrol", "scancel")
SEEN = ("/proc", "/tmp", "/run", "/root", str(ROOT), sys.base_prefix)  # noqa: S108 - not a file's name
READ = ("/sys", *(f"/etc/{name}" for name in ("passwd", "group", "hosts")))
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's daemons run jobs as their users"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    place = tmp_path_factory.mktemp("debian13")
    packages = "slurmctld,slurmd,slurm-client,munge,python3"
    words = ("mmdebstrap", "--quiet", "--variant=essential", f"--include={packages}")
    subprocess.run([*words, "trixie", place / "root"], check=True, timeout=900)
    mounts = [f"--bind {path} {path}" for path in SEEN]
    mounts += [f"--ro-bind {path} {path}" for path in READ]
    box = f"bwrap --bind {place / 'root'} / --dev-bind /dev /dev {' '.join(mounts)}"
    (place / "bin").mkdir()
    for name in (*PROGRAMS, *ASKED):
        program = shutil.which(name, path=f"{place}/root/usr/bin:{place}/root/usr/sbin")
        assert program is not None, name
        inside = program.removeprefix(str(place / "root"))
        path = place / "bin" / name
        # A daemon is ended with its box; what asks Slurm ends by itself when it is told to.
        ends = "--die-with-parent" if name in DAEMONS else ""
        path.write_text(f'#!/bin/sh\nexec {box} {ends} --chdir "$PWD" {inside} "$@"\n')
        path.chmod(0o755)
    return place / "bin"


@pytest.mark.parametrize("path", TESTS)
def test_with_a_newer_slurm(programs, path):
    assert execute([programs / "slurmd", "-V"]).stdout.startswith("slurm-wlm 24.11")
    words = (sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", path)
    done = execute(
        [*words, "-m", "not hours"],
        cwd=ROOT,
        env={**os.environ, OTHER: str(programs)},
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "skipped" not in done.stdout.splitlines()[-1]
