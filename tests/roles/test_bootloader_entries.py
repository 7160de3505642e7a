"""Kernel arguments at boot in boot entries of their own, as the Red Hat family has them."""

from __future__ import annotations

import pytest
from plugins.module_utils.plan import Refused
from tests.roles.boot_arguments import WANTED, apply, planned
from tests.roles.fake import FakeMachine

ENTRY = "/boot/loader/entries/abc-5.14.0-427.el9.x86_64.conf"
OLDER = "/boot/loader/entries/abc-5.14.0-362.el9.x86_64.conf"
RESCUE = "/boot/loader/entries/abc-0-rescue.conf"
MARK = "/var/lib/rdmaprov/kernel-arguments-hugepages"


@pytest.fixture
def red_hat(machine: FakeMachine) -> FakeMachine:
    for path in (ENTRY, OLDER, RESCUE):
        machine.put(path, "title x\nlinux /vmlinuz-x\noptions root=UUID=1 ro\n")
    machine.put("/proc/cmdline", "root=UUID=1 ro\n")

    def edit(argv: list[str]) -> str:
        kind, _, words = argv[2].partition("=")
        for path in (ENTRY, OLDER):
            *head, options = (machine.read(path) or "").splitlines()
            kept = [
                word
                for word in options.split()
                if kind == "--args" or word.partition("=")[0] not in words.split()
            ]
            more = words.split() if kind == "--args" else []
            machine.put(path, "\n".join([*head, " ".join([*kept, *more])]) + "\n")
        return ""

    machine.programs = {"grubby --update-kernel=ALL": edit}
    return machine


def test_boot_entries_get_and_lose_their_arguments(red_hat: FakeMachine):
    factory = red_hat.read(ENTRY)
    apply(red_hat, WANTED)
    assert (red_hat.read(OLDER) or "").endswith("root=UUID=1 ro hugepagesz=1G hugepages=2\n")
    assert planned(red_hat, WANTED).steps == []
    apply(red_hat, ["hugepagesz=1G", "hugepages=4"])
    assert (red_hat.read(ENTRY) or "").endswith("root=UUID=1 ro hugepagesz=1G hugepages=4\n")
    apply(red_hat, [])
    assert red_hat.read(ENTRY) == factory
    assert not red_hat.exists(MARK)
    assert planned(red_hat, []).steps == []


def test_one_boot_entry_that_an_interrupted_run_left_is_seen(red_hat: FakeMachine):
    factory = red_hat.read(ENTRY) or ""
    apply(red_hat, WANTED)
    red_hat.put(OLDER, factory)
    assert planned(red_hat, WANTED).changes()[0]["seen"] == " | hugepagesz=1G hugepages=2"
    apply(red_hat, WANTED)
    assert planned(red_hat, WANTED).steps == []


def test_arguments_in_the_environment_of_grub_are_seen(red_hat: FakeMachine):
    red_hat.put(ENTRY, "options $kernelopts\n")
    red_hat.put("/boot/grub2/grubenv", "kernelopts=root=UUID=1 hugepages=9\n")
    with pytest.raises(Refused, match=r"427.el9.x86_64.conf gives the kernel hugepages=9"):
        planned(red_hat, WANTED)
