"""A lab is kept for the next run, and made anew where what made it has changed."""

import pytest
from tests.lab import kept
from tests.lab.fleet import NODES

pytestmark = pytest.mark.lab


@pytest.fixture(autouse=True)
def _begin_test():
    """Begin from no saved state, in place of the directory's fixture of this name."""


@pytest.mark.hours
def test_run_starts_from_what_the_last_one_saved_unless_its_key_is_another(tmp_path, at_large):
    def boots(key):
        with kept.kept_lab(tmp_path / "labs", key, at_large) as lab:
            return [lab.run(node, "cat /proc/sys/kernel/random/boot_id") for node in NODES]

    first = boots("one")
    assert boots("one") == first
    assert not set(boots("another")) & set(first)
