"""An installed wheel has what a checkout has, and finds it from any directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Provide a directory with the wheel's files, as pip lays them out."""
    built = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)]
    subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True)
    target = tmp_path_factory.mktemp("site-packages")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", target, next(built.glob("*.whl"))], check=True)
    return target


def python(installed, code, cwd):
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(installed)!r})\n{code}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["lab", "inventory"])
def test_wheel_carries_the_directory(installed, tmp_path, name):
    code = f"from rdmaprov.resources import data_dir; print(data_dir({name!r}))"
    found = Path(python(installed, code, tmp_path))
    assert found == installed / "rdmaprov/_data" / name
    assert any(found.rglob("*.*"))


def test_wheel_leaves_a_lab_s_own_hosts_behind(installed):
    assert not (installed / "rdmaprov/_data/inventory/lab/hosts.yml").exists()


def test_wheel_s_image_has_the_key_of_the_checkout_s(installed, tmp_path):
    """The same recipe, so that a user of both builds one image."""
    code = (
        "from rdmaprov.lab.image import Recipe; from rdmaprov.resources import data_dir\n"
        "print(Recipe(data_dir('lab'), 'bookworm').key())"
    )
    assert python(installed, code, tmp_path) == python(CHECKOUT / "src", code, tmp_path)


def test_wheel_s_lab_site_is_made_where_its_user_is(installed, tmp_path):
    code = "from rdmaprov.lab.site import default_site; print(default_site())"
    assert python(installed, code, tmp_path) == str(tmp_path / "inventory/lab")


def test_wheel_s_suite_runs_by_its_package_name(installed, tmp_path):
    """As `pytest --pyargs` on what is installed, in a directory that knows nothing of it."""
    site = installed / "rdmaprov/_data/inventory/prod"
    command = [
        sys.executable, "-m", "pytest", "-p", "rdmaprov.validate.plugin", "--pyargs",
        "rdmaprov.suite", f"--inventory={site}", "--collect-only", "-q",
    ]  # fmt: skip
    path = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        command, cwd=tmp_path, env=path, capture_output=True, text=True, check=False
    )
    assert f"{installed}/rdmaprov/suite" in python(
        installed, "from rdmaprov.resources import suite_dir; print(suite_dir())", tmp_path
    )
    assert "error" not in done.stdout.lower(), done.stdout
    assert done.returncode in (0, 5), done.stdout + done.stderr
