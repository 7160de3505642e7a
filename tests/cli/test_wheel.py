"""An installed wheel has what a checkout has, and finds it from any directory."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.report import gate_runs
from tests.unit.helpers.shell import execute

import rdmaprov
from rdmaprov import cli
from rdmaprov.exit_codes import ExitCode

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    built = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)]
    execute(command, cwd=CHECKOUT, check=True)
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    target = tmp_path_factory.mktemp("site-packages")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    execute([*command, "--target", target, wheel], check=True)
    return target


def galaxy(installed, home, *words):
    """Return what ansible-galaxy prints where pip has put the wheel's collection on the path."""
    command = [sys.executable, "-m", "ansible", "galaxy", "collection", *words]
    env = {**os.environ, "PYTHONPATH": str(installed), "ANSIBLE_HOME": str(home)}
    return execute(command, cwd=home, env=env, check=True).stdout


def python(installed, code, cwd):
    done = execute(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(installed)!r})\n{code}"],
        cwd=cwd,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["lab", "inventory"])
def test_wheel_carries_the_directory(installed, tmp_path, name):
    code = f"from rdmaprov.resources import data_dir; print(data_dir({name!r}))"
    found = Path(python(installed, code, tmp_path))
    assert found == installed / "rdmaprov/_data" / name
    assert any(found.rglob("*.*"))


def test_wheel_carries_what_distributions_ask_for(installed):
    """Its types, the manual page and completions, and the text of each license it names."""
    assert (installed / "rdmaprov/py.typed").exists()
    shared = {each.name for each in (installed / "share").rglob("*") if each.is_file()}
    assert shared == {"rdmaprov.1", "rdmaprov", "_rdmaprov", "rdmaprov.fish"}
    (about,) = installed.glob("rdmaprov-*.dist-info")
    assert "License-Expression: Apache-2.0 AND GPL-2.0-only\n" in (about / "METADATA").read_text()
    standins = (each.read_text() for each in installed.glob("rdmaprov/_data/lab/standins/*"))
    named = set(re.findall(r"SPDX-License-(?:Identifier): (\S+)", "".join(standins)))
    assert named <= {each.stem for each in about.glob("licenses/**/*.txt")}
    assert "GPL-2.0-only" in named


def test_wheel_leaves_a_lab_s_own_hosts_behind(installed):
    assert not (installed / "rdmaprov/_data/inventory/lab/hosts.yml").exists()


VERSION = {"rdmaprov.node": {"version": rdmaprov.__version__}}


def test_ansible_tells_the_version_of_the_wheel_s_collection(installed, tmp_path):
    """As where pip has put it: on Python's path, and no setting names it."""
    found = json.loads(galaxy(installed, tmp_path, "list", "--format", "json"))
    assert found[str(installed / "ansible_collections")] == VERSION
    assert not (installed / "galaxy.yml").exists()


def test_galaxy_installs_its_collection_beside_the_wheel_s(installed, tmp_path):
    """As production.md says; verbs use the wheel's (unit/apply/test_runner.py)."""
    galaxy(installed, tmp_path, "build", CHECKOUT, "--output-path", tmp_path)
    (archive,) = tmp_path.glob("rdmaprov-node-*.tar.gz")
    galaxy(installed, tmp_path, "install", archive, "--offline", "--force")
    found = json.loads(galaxy(installed, tmp_path, "list", "--format", "json"))
    places = (tmp_path / "collections/ansible_collections", installed / "ansible_collections")
    assert [found[str(place)] for place in places] == [VERSION] * 2


def test_editable_installation_has_the_checkout_s_collection_only(tmp_path):
    """A second one in site-packages would come first, and lack the roles and modules."""
    code = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = ZipFile(wheel).namelist()
    assert any(name.endswith(".pth") for name in names)
    assert not [name for name in names if name.startswith("ansible_collections")]


def test_wheel_names_its_repository_as_the_collection_does(installed):
    (metadata,) = (each.metadata for each in distributions(path=[str(installed)]))
    urls = dict(each.split(", ", 1) for each in metadata.get_all("Project-URL") or [])
    galaxy = (installed / "ansible_collections/rdmaprov/node/galaxy.yml").read_text()
    assert f"repository: {urls['Repository']}\n" in galaxy


def test_wheel_needs_matplotlib_for_plots_only(installed):
    (needed,) = (each.requires or [] for each in distributions(path=[str(installed)]))
    named = [each for each in needed if "extra ==" not in each or "extra == 'plots'" in each]
    assert [each for each in named if each.startswith(("matplotlib", "numpy"))] == [
        "matplotlib>=3.10; extra == 'plots'"
    ]


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
        *(sys.executable, "-m", "pytest", "--pyargs", "rdmaprov.suite", f"--inventory={site}"),
        *("--collect-only", "-q"),
    ]
    done = execute(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(installed)})
    assert f"{installed}/rdmaprov/suite" in python(
        installed, "from rdmaprov.resources import suite_dir; print(suite_dir())", tmp_path
    )
    assert "ERROR" not in done.stdout, done.stdout
    assert done.returncode in (0, 5), done.stdout + done.stderr


def test_wheel_makes_a_run_s_page(installed, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(gate_runs.accepted(2)))
    code = "from pathlib import Path; from rdmaprov.report.write import write_page as write; "
    code += "print(write(Path()))"
    assert python(installed, code, tmp_path) == "report.html"
    assert "Refused" in (tmp_path / "report.html").read_text()


@pytest.fixture(scope="module")
def program(wheel, tmp_path_factory):
    """Provide the program as pip installs it from a wheel, with this environment's dependencies."""
    place = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(place, with_pip=False)
    command = [sys.executable, "-m", "pip", "--python", str(place / "bin/python"), "install"]
    execute([*command, "--quiet", "--no-deps", "--no-index", wheel], check=True)
    (packages,) = place.glob("lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in ("ansible-playbook", "ansible"):
        (place / "bin" / name).write_text(
            f"#!{place}/bin/python\nimport sys\nfrom importlib.metadata import entry_points\n"
            f"(each,) = entry_points(group='console_scripts', name='{name}')\n"
            "sys.exit(each.load()())\n"
        )
        (place / "bin" / name).chmod(0o755)
    return place / "bin/rdmaprov"


@pytest.fixture(scope="module")
def own_site(program, tmp_path_factory):
    place = tmp_path_factory.mktemp("anywhere")
    words = ["--kind", "roce", "--rails", "ens1,ens2", "--gbps", "400", "--gpus", "0"]
    words += ["--subnet", "198.18.0.0/15", "--nodes", "here[1:2]"]
    assert wheel_s(program, place, "init", "here", *words).returncode == ExitCode.OK
    local = f"ansible_connection: local\nansible_python_interpreter: {sys.executable}\n"
    (place / "here/group_vars/nodes.yml").write_text(f"---\n{local}ansible_become: false\n")
    shutil.copytree(place / "here", place / "away")
    closed = "---\nansible_host: 127.0.0.1\nansible_port: 1\nansible_ssh_timeout: 5\n"
    (place / "away/group_vars/nodes.yml").write_text(closed)
    return place


def wheel_s(program, place, *words):
    return execute(
        [program, *words],
        cwd=place,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "HOME": str(place), "LC_ALL": "C.UTF-8"},
    )


# Verb, its words, how it ends, and what it says. On nodes that are this machine only what reads;
# what changes nodes gets some that do not answer.
FLOOR = ["floor", "--nodes=2", "--gpus-per-node=8", "--rails=8", "--link-gbps=400"]
VERBS = [
    ("check", ["here"], ExitCode.OK, ""),
    ("schema", [], ExitCode.OK, "fabric_rails"),
    ("completion", ["bash"], ExitCode.OK, "_RDMAPROV_COMPLETE"),
    ("explain", FLOOR, ExitCode.OK, "floor 339"),
    ("schedule", ["away", "--directory", "."], ExitCode.OK, "start them: systemctl"),
    ("lab", ["--dir", "lab", "--cache", "cache", "fault", "--list"], ExitCode.OK, "mtu-wrong"),
    ("compile", ["here", "--out", "bundles", "--key", "here"], ExitCode.USAGE, ""),
    ("discover", ["here"], ExitCode.UNKNOWN, "# host_vars/here1.yml"),
    ("plan", ["here"], ExitCode.FAILED, "2 nodes: 2 failed"),
    ("apply", ["away"], ExitCode.UNKNOWN, "2 nodes: 2 unreachable"),
    ("validate", ["here", "test_mtu.py"], ExitCode.UNKNOWN, "2 nodes: 2 unknown"),
    ("revert", ["away", "runs/*-apply"], ExitCode.UNKNOWN, "unreachable"),
    ("record", ["here", "--limit", "here1"], ExitCode.OK, "wrote here1.record.json.gz"),
    ("accept", ["away"], ExitCode.UNKNOWN, "unknown"),
    ("certificate", ["check", "away", "here1"], ExitCode.UNKNOWN, ""),
    ("replace", ["away", "here1"], ExitCode.UNKNOWN, "here1: stopped at host key: "),
    ("subnet", ["away"], ExitCode.USAGE, ""),
    ("tune", ["away"], ExitCode.UNKNOWN, "nothing was measured"),
    ("watch", ["away", "--for", "1s"], ExitCode.UNKNOWN, "unreachable"),
    ("report", [], ExitCode.OK, "report.html"),
    ("history", ["away"], ExitCode.OK, "away: "),
    ("merge", ["runs/*-validate"] * 2, ExitCode.USAGE, ""),
    ("dossier", ["nowhere", "here1"], ExitCode.USAGE, ""),
    ("compare", ["runs/*-validate"] * 2, ExitCode.UNKNOWN, "not compared: 2 nodes: unknown"),
]


@pytest.mark.long
def test_wheel_s_verbs_work_on_a_site_of_the_user_s_own(program, own_site):
    """One after the other, as a user would; the last one finds what those before it kept."""
    assert {verb for verb, *_ in VERBS} | {"init"} == set(cli.VERBS)
    for verb, words, code, says in VERBS:
        named = [str(max(own_site.glob(word))) if "*" in word else word for word in words]
        done = wheel_s(program, own_site, verb, *named)
        assert done.returncode == code, (verb, done.stdout, done.stderr)
        assert says in done.stdout, (verb, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, (verb, done.stderr)
        assert str(CHECKOUT) not in done.stdout.replace(sys.executable, ""), verb
