"""container/: what ansible-builder makes of it, and what it installs."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.matrix import PYTHONS, ROOT

HERE = ROOT / "container"
DEFINITION = "execution-environment.yml"
Ended = subprocess.CompletedProcess[str]
PIN = re.compile(r"^([\w.-]+)==(\S+) ", re.MULTILINE)


def pins(text: str) -> dict[str, str]:
    return dict(PIN.findall(text))


def created(place: Path, *files: str) -> Ended:
    shutil.copytree(HERE, place / "container", ignore=shutil.ignore_patterns("dist", "context"))
    for name in files:
        (place / "container" / name).parent.mkdir(exist_ok=True)
        (place / "container" / name).touch()
    command = [sys.executable, "-m", "ansible_builder", "create", f"--context={place}/context"]
    command += [f"--file={place}/container/{DEFINITION}", "--output-filename=Containerfile"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_ansible_builder_takes_the_definition(tmp_path):
    wheel = "rdmaprov-1-py3-none-any.whl"
    done = created(tmp_path, f"dist/{wheel}")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    given = tmp_path / "context/_build"
    assert {each.name for each in (given / "rdmaprov").iterdir()} == {wheel, "requirements.txt"}
    assert (given / "bindep.txt").read_text() == (HERE / "bindep.txt").read_text()
    made = (tmp_path / "context/Containerfile").read_text()
    steps = yaml.safe_load((HERE / DEFINITION).read_text())["additional_build_steps"]
    assert {line for lines in steps.values() for line in lines} <= set(made.splitlines())
    assert not re.search("chmod.*/etc/passwd", made)  # CVE-2025-57847


def test_checkout_without_a_wheel_is_noticed(tmp_path):
    done = created(tmp_path)
    assert "No matches for 'dist/rdmaprov-*.whl'" in done.stdout + done.stderr


def test_python_of_each_base_is_a_supported_one():
    named = re.findall(r"python:?(3\.\d+)", (HERE / DEFINITION).read_text())
    named += re.findall(r"python:?(3\.\d+)", (HERE / "Containerfile").read_text())
    assert len(named) >= 3
    assert set(named) <= set(PYTHONS)


def needed(python: str) -> set[str]:
    """Return all packages that the program needs on a Python, by what they say of themselves."""
    where = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    found: set[str] = set()
    left = ["rdmaprov"]
    while left:
        for each in map(Requirement, requires(left.pop()) or []):
            name = canonicalize_name(each.name)
            if (each.marker is None or each.marker.evaluate(where)) and name not in found:
                found.add(name)
                left.append(name)
    return found


@pytest.mark.skipif(
    any(
        version(name) != pin for name, pin in pins((HERE / "requirements.txt").read_text()).items()
    ),
    reason="needs what requirements.lock has, and make matrix has others",
)
@pytest.mark.parametrize("python", PYTHONS)
def test_what_is_installed_is_what_the_program_needs(python):
    installed = pins((HERE / "requirements.txt").read_text())
    locked = pins((ROOT / "requirements.lock").read_text())
    assert set(installed) == needed(python)
    assert installed.items() <= locked.items()


def test_every_package_has_hashes():
    entries = re.split(r"\n(?=\S)", (HERE / "requirements.txt").read_text().strip())
    bare = [each for each in entries if not each.startswith("#") and "--hash=sha256:" not in each]
    assert bare == []
