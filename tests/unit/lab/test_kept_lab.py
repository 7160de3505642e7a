"""Which changes of a checkout make the tests' labs anew, and which do not."""

import shutil

import pytest
from tests.lab import kept
from tests.tables import cases


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    root = tmp_path_factory.mktemp("checkout")
    for part in ("lab", *kept.PARTS):
        shutil.copytree(kept.ROOT / part, root / part, dirs_exist_ok=True)
    return root


@pytest.mark.parametrize("name", cases(__file__, "change_makes_another_lab"))
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
