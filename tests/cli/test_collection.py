"""The collection builds, and a plain playbook uses what was built, without the CLI."""

import json
import os
import re
import sys
import tarfile
from pathlib import Path

import ansible_test
import pytest
from tests.unit.helpers.shell import execute

from rdmaprov.inventory import schema

CHECKOUT = Path(__file__).parents[2]
SCHEMA = schema.load_shipped()
TASKS = "roles/*/tasks/main.yml"
PLAY = """\
---
- hosts: all
  gather_facts: false
  roles: [rdmaprov.node.limits]
"""


def ansible(program, *words, cwd, **environment):
    return execute(
        [Path(sys.executable).with_name(program), *words],
        cwd=cwd,
        env={
            **os.environ,
            "ANSIBLE_HOME": str(cwd / "home"),
            # Only what was built: not the checkout that this Python has on its path.
            "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false",
            "ANSIBLE_COLLECTIONS_PATH": str(cwd / "collections"),
            "PYTHONPATH": "",
            **environment,
        },
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Provide a directory with the collection's archive, built as production.md says."""
    place = tmp_path_factory.mktemp("collection")
    words = ["collection", "build", str(CHECKOUT), "--output-path", str(place)]
    done = ansible("ansible-galaxy", *words, cwd=place)
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture(scope="module")
def installed(built):
    (archive,) = built.glob("rdmaprov-node-*.tar.gz")
    done = ansible("ansible-galaxy", "collection", "install", str(archive), "--offline", cwd=built)
    assert done.returncode == 0, done.stderr
    return built


def test_archive_has_what_ansible_needs_and_nothing_else(built):
    (archive,) = built.glob("rdmaprov-node-*.tar.gz")
    with tarfile.open(archive) as opened:
        tops = {name.partition("/")[0] for name in opened.getnames()}
    assert tops == {
        *("MANIFEST.json", "FILES.json", "README.md", "LICENSE", "CHANGELOG.md"),
        "SECURITY.md",
        *("changelogs", "docs", "meta", "playbooks", "plugins", "roles"),
    }


def test_every_role_is_listed(installed):
    words = ["--type", "role", "--list", "--json", "rdmaprov.node"]
    done = ansible("ansible-doc", *words, cwd=installed)
    roles = {f"rdmaprov.node.{path.parent.parent.name}" for path in CHECKOUT.glob(TASKS)}
    assert set(json.loads(done.stdout)) == roles


def test_every_variable_of_a_role_is_documented(installed):
    words = ["--type", "role", "--json", "rdmaprov.node.nccl"]
    (role,) = json.loads(ansible("ansible-doc", *words, cwd=installed).stdout).values()
    assert set(role["entry_points"]["main"]["options"]) == set(SCHEMA.roles["nccl"].variables)


@pytest.mark.long
def test_antsibull_finds_nothing_to_say_about_the_documentation(installed):
    collection = installed / "collections" / "ansible_collections" / "rdmaprov" / "node"
    words = ["lint-collection-docs", "--plugin-docs", str(collection)]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # it starts ansible-doc
    done = ansible("antsibull-docs", *words, cwd=installed, PATH=path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_validate_modules_finds_only_the_license(installed):
    """ansible-test wants Ansible's own license, GPLv3; these modules are under Apache-2.0."""
    (checker,) = Path(ansible_test.__file__).parent.glob("_util/**/validate-modules/validate.py")
    collection = installed / "collections/ansible_collections/rdmaprov/node"
    done = execute(
        [
            *(sys.executable, checker, "--format=json", "--arg-spec", "--collection"),
            *("ansible_collections/rdmaprov/node", "plugins/modules"),
        ],
        cwd=collection,
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(installed / "collections"),
            "PYTHONPATH": f"{checker.parent}:{installed / 'collections'}",
        },
    )
    assert done.stdout, done.stderr
    errors = {
        Path(path).name: {error["code"] for error in found["errors"]}
        for path, found in json.loads(done.stdout).items()
    }
    modules = {path.name for path in collection.glob("plugins/modules/*.py")}
    assert errors == {name: {"missing-gplv3-license"} for name in modules}


# What ansible-test finds and we leave: docs/contributing.md says why.
LEFT_OF_SANITY = {
    "action plugin has no matching module to provide documentation",
    "ansible-bad-function",
    "disallowed-name",
    "missing-gplv3-license",
    "use `ansible.module_utils.urls.open_url` instead of `urlopen`",
}


@pytest.mark.hours
def test_sanity_finds_only_what_is_listed(installed):
    """All of ansible-test's sanity tests for one Python; pip fetches their tools."""
    # Its own script for pip is not in a package index; the Python that it makes brings one.
    (source,) = Path(ansible_test.__file__).parent.glob("_internal/python_requirements.py")
    (version,) = re.findall(r"pip='([\d.]+)'", source.read_text())
    script = installed / ".ansible/test/cache" / f"get_pip_{version.replace('.', '_')}.py"
    script.parent.mkdir(parents=True)
    script.write_text("import ensurepip\nensurepip.bootstrap(default_pip=True)\n")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = ["sanity", "--venv", "--python", python, "--color", "no"]
    collection = installed / "collections/ansible_collections/rdmaprov/node"
    done = ansible("ansible-test", *words, cwd=collection, HOME=str(installed))
    said = done.stdout + done.stderr
    assert len(re.findall('^Running sanity test "', said, re.MULTILINE)) >= 24, said
    found = re.findall(r"^ERROR: [^:]+:\d+:\d+: (?:([\w-]+): )?(.*)", said, re.MULTILINE)
    assert {code or text for code, text in found} == LEFT_OF_SANITY


def playbook(place, variables):
    (place / "play.yml").write_text(PLAY)
    words = ["play.yml", "--inventory", "localhost,", "--connection", "local", "--check"]
    words += ["--extra-vars", f"ansible_python_interpreter={sys.executable}"]
    return ansible("ansible-playbook", *words, "--extra-vars", variables, cwd=place)


def test_plain_playbook_runs_a_role(installed):
    """The role's arguments and its module are found and work."""
    # This machine need not run systemd.
    done = playbook(installed, '{"limits_memlock_services": []}')
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validating arguments against arg spec 'main'" in done.stdout
    assert "failed=0" in done.stdout


def test_plain_playbook_is_refused_a_wrong_argument(installed):
    done = playbook(installed, "limits_sysctl=none")
    assert done.returncode == 2
    assert "limits_sysctl" in done.stdout + done.stderr
