"""TuneD's profiles: what is included, what counts, and where it does not matter."""

import pytest

from rdmaprov.facts import CouldNotTell, tuned


def options(node):
    profile = tuned.read(node.host())
    assert profile is not None
    return {(each.kind, each.name): each.value for each in profile.options}


def test_own_option_counts_more_than_an_included_one(changed):
    seen = options(changed)
    assert seen["cpu", "governor"] == "performance|schedutil"
    assert seen["sysctl", "kernel.numa_balancing"] == "0"


def test_last_of_several_profiles_counts(changed):
    changed.put("/etc/tuned/active_profile", "node-of-ours hpc\n")
    assert options(changed)["cpu", "governor"] == "schedutil"


def test_profile_of_the_user_hides_the_distributions(changed):
    changed.put("/etc/tuned/hpc/tuned.conf", "[sysctl]\nkernel.numa_balancing=1\n")
    assert options(changed)["sysctl", "kernel.numa_balancing"] == "1"


def test_instance_of_a_plugin_has_any_name(changed):
    changed.put("/usr/lib/tuned/hpc/tuned.conf", "[ours]\ntype=sysctl\nvm.nr_hugepages=4\n")
    assert options(changed)["sysctl", "vm.nr_hugepages"] == "4"


def test_tuned_that_does_not_run_sets_nothing(changed):
    changed.unit("tuned.service", ActiveState="inactive")
    assert tuned.read(changed.host()) is None


@pytest.mark.parametrize("name", ["../../root", "hpc;reboot", "$(reboot)"])
def test_odd_name_of_a_profile_is_unknown(changed, name):
    changed.put("/etc/tuned/active_profile", f"{name}\n")
    with pytest.raises(CouldNotTell, match="cannot be read"):
        tuned.read(changed.host())


def test_profile_that_includes_itself_is_unknown(changed):
    changed.put("/usr/lib/tuned/hpc/tuned.conf", "[main]\ninclude=hpc\n")
    with pytest.raises(CouldNotTell, match="cannot be read"):
        tuned.read(changed.host())
