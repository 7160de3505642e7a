"""The shell scripts of a node's image, and of the shapes, are clean POSIX sh."""

from __future__ import annotations

import subprocess

import pytest

from rdmaprov.lab import shapes
from rdmaprov.resources import data_dir

IMAGE = data_dir("lab") / "image"
SCRIPTS = ("setup.sh", "files/usr/lib/rdmaprov-lab/identity", "files/usr/lib/rdmaprov-lab/rail")


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_has_no_shellcheck_finding(name):
    done = subprocess.run(
        ["shellcheck", "-s", "sh", IMAGE / name], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""


@pytest.mark.parametrize(
    "name", [each.name for each in shapes.catalogue().values() if each.factory]
)
def test_script_of_a_shape_has_no_shellcheck_finding(name):
    done = subprocess.run(
        ["shellcheck", "-s", "sh", "-"],
        input="set -eu\n" + shapes.find(name).script(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
