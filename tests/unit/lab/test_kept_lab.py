"""Which changes of a checkout make the tests' labs anew, and which do not."""

import shutil

import pytest
from tests.lab import kept


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    root = tmp_path_factory.mktemp("checkout")
    for part in ("lab", *kept.PARTS):
        shutil.copytree(kept.ROOT / part, root / part, dirs_exist_ok=True)
    return root


@pytest.mark.parametrize(
    "name",
    [
        "lab/recipe.toml",
        "lab/image/setup.sh",
        "roles/mtu/tasks/main.yml",
        "plugins/module_utils/roles/mtu.py",
        "inventory/lab/group_vars/all.yml",
        "roles/mtu/files/new.yml",
    ],
)
def test_change_makes_another_lab(checkout, name):
    path, before = checkout / name, kept.key(checkout)
    old = path.read_bytes() if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((old or b"") + b"\n# changed\n")
    assert kept.key(checkout) != before
    path.write_bytes(old) if old is not None else path.unlink()
    assert kept.key(checkout) == before


@pytest.mark.parametrize("name", ["README.md", "inventory/lab/hosts.yml", "lab/demo.py"])
def test_change_of_something_else_does_not(checkout, name):
    before = kept.key(checkout)
    (checkout / name).write_text("changed")
    assert kept.key(checkout) == before
