"""Kernel arguments at boot in GRUB's configuration: put there, removed, proven before a boot."""

import subprocess
from pathlib import Path

import pytest
from plugins.module_utils import bootloader
from plugins.module_utils.bootloader import grub
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.plan import NotYet, Plan, Refused
from tests.roles.fake import FakeMachine
from tests.tables import cases

NAMES = ("hugepagesz", "hugepages")
WANTED = ["hugepagesz=1G", "hugepages=2"]
KERNEL = "vmlinuz-6.1.0-40-amd64"
# From a Debian 12 node (grub-mkconfig 2.06), shortened.
CFG: str = cases(__file__, "cfg")


class Debian(FakeMachine):
    root_id = "1"
    kernel = KERNEL

    def prepare(self) -> None:
        self.put("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz root=UUID=1 ro console=ttyS0\n")
        self.put("/proc/sys/kernel/osrelease", "6.1.0-40-amd64\n")
        self.put("/boot/" + KERNEL)
        self.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n')
        self.put(grub.CONFIG, self.cfg("quiet"))
        self.programs = {"grub-mkconfig -o": self._mkconfig, "grub-script-check": ""}

    def cfg(self, arguments: str) -> str:
        return CFG.format(root=self.root_id, kernel=self.kernel, arguments=arguments)

    def _mkconfig(self, argv: list[str]) -> str:
        files = [self.path("/etc/default/grub")]
        files += [self.path(f"{grub.DROP_INS}/{name}") for name in self.names(grub.DROP_INS)]
        script = "".join(f". {file}\n" for file in files) + 'echo "$GRUB_CMDLINE_LINUX_DEFAULT"'
        shell = ["sh", "-euc", script]
        said = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
        Path(argv[2]).write_text(self.cfg(said.strip()))
        return ""

    def boot(self) -> None:
        self.put("/proc/cmdline", grub.entries(self.read(grub.CONFIG) or "")[0].line + "\n")


def planned(node: FakeMachine, wanted: list[str]) -> Plan:
    plan = Plan(node)
    bootloader.arguments(plan, "hugepages", NAMES, wanted)
    return plan


def apply(node: FakeMachine, wanted: list[str]) -> Plan:
    plan = planned(node, wanted)
    for step in plan.steps:
        step.do()
    return plan


DROP_IN = "/etc/default/grub.d/zz-rdmaprov-hugepages.cfg"


@pytest.fixture
def node(machine: FakeMachine) -> Debian:
    return Debian.made(machine.root)


def carried(node: FakeMachine) -> list[str]:
    return [entry.line for entry in grub.entries(node.read(grub.CONFIG) or "")]


def test_semicolon_ends_no_command_of_grub_s(node: Debian):
    plan = Plan(node)
    argument = "pci=disable_acs_redir=0000:17:00.0;0000:18:00.0"
    node.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet pci=noaer"\n')
    assert bootloader.takes_lists(node)
    bootloader.arguments(plan, "pcie-acs", ("pci=disable_acs_redir",), [argument])
    for step in plan.steps:
        step.do()
    written = argument.replace(";", "\\;")
    assert f"quiet pci=noaer {written}\n" in (node.read(grub.CONFIG) or "")
    node.boot()
    again = Plan(node)
    bootloader.arguments(again, "pcie-acs", ("pci=disable_acs_redir",), [argument])
    assert (again.steps, again.reboot) == ([], [])


def test_every_kernel_but_recovery_gets_its_arguments(node: Debian):
    before = carried(node)
    apply(node, WANTED)
    assert carried(node) == [
        before[0] + " hugepagesz=1G hugepages=2",
        before[1] + " hugepagesz=1G hugepages=2",
        *before[2:],
    ]
    assert not node.exists(grub.NEW)
    again = planned(node, WANTED)
    assert again.steps == []
    assert again.reboot == [
        "the running kernel has '', expected 'hugepagesz=1G hugepages=2' (/proc/cmdline)"
    ]
    node.boot()
    assert planned(node, WANTED).reboot == []


def test_arguments_no_longer_wanted_are_removed(node: Debian):
    factory = node.read(grub.CONFIG)
    apply(node, WANTED)
    node.boot()
    assert apply(node, []).reboot
    assert not node.exists(DROP_IN)
    assert node.read(grub.CONFIG) == factory
    node.boot()
    after = planned(node, [])
    assert (after.steps, after.reboot) == ([], [])


@pytest.mark.parametrize("lost", ["drop-in", "grub.cfg"])
def test_each_half_is_seen_alone(node: Debian, lost: str):
    """An interrupted run leaves the drop-in, and a grub.cfg that does not have it."""
    factory = node.read(grub.CONFIG) or ""
    apply(node, WANTED)
    path = DROP_IN if lost == "drop-in" else grub.CONFIG
    if lost == "drop-in":
        node.remove(DROP_IN)
    else:
        node.put(grub.CONFIG, factory)
    assert [change["device"] for change in planned(node, WANTED).changes()] == [path]
    apply(node, WANTED)
    assert planned(node, WANTED).steps == []


def test_drop_in_left_by_an_interrupted_removal_is_seen(node: Debian):
    apply(node, WANTED)
    node.remove(DROP_IN)
    assert [change["device"] for change in planned(node, []).changes()] == [grub.CONFIG]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda node: setattr(node, "root_id", "2"), r"the kernel gets \['root=UUID=2'\]"),
        (lambda node: setattr(node, "kernel", "vmlinuz-9"), "vmlinuz-9 is not in /boot"),
        (lambda node: setattr(node, "cfg", lambda _: "set timeout=0\n"), "no kernel of this"),
        (
            lambda node: node.put(grub.DROP_INS + "/zzz.cfg", 'GRUB_CMDLINE_LINUX_DEFAULT="a"\n'),
            "does not get 'hugepagesz=1G hugepages=2'; does a later file",
        ),
    ],
)
def test_configuration_that_could_not_start_the_node_is_not_put_in_place(node, spoil, message):
    before = node.read(grub.CONFIG)
    spoil(node)
    with pytest.raises(NodeError, match=rf"{grub.CONFIG} is unchanged: .*{message}"):
        apply(node, WANTED)
    assert node.read(grub.CONFIG) == before


def test_file_that_a_killed_run_left_goes(node: Debian):
    apply(node, WANTED)
    node.put(grub.NEW, "x")
    assert [change["device"] for change in apply(node, WANTED).changes()] == [grub.NEW]
    assert not node.exists(grub.NEW)


def test_configuration_that_grub_does_not_read_is_not_put_in_place(node: Debian):
    before = node.read(grub.CONFIG)
    node.programs["grub-script-check"] = CommandFailed(["grub-script-check"], 1, "syntax error")
    with pytest.raises(CommandFailed, match="syntax error"):
        apply(node, WANTED)
    assert node.read(grub.CONFIG) == before


def test_configuration_written_by_hand_is_replaced_by_a_generated_one(node: Debian):
    node.put(grub.CONFIG, f"menuentry 'x' {{\n linux /boot/{KERNEL} root=LABEL=a ro\n}}\n")
    assert planned(node, []).steps == []
    apply(node, WANTED)
    assert planned(node, WANTED).steps == []


def test_arguments_of_somebody_else_are_refused(node: Debian):
    node.put(grub.DROP_INS + "/50-cloud.cfg", "GRUB_CMDLINE_LINUX='a hugepages=512'\n")
    for wanted in (WANTED, []):
        with pytest.raises(
            Refused, match=r"50-cloud.cfg sets hugepages=512 for the kernel, expected"
        ):
            planned(node, wanted)


def test_arguments_that_somebody_else_gives_as_wanted_are_left_to_him(node: Debian):
    node.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="hugepagesz=1G hugepages=2"\n')
    apply(node, WANTED)
    assert not node.exists(DROP_IN)
    assert planned(node, WANTED).steps == []


@pytest.mark.parametrize("word", ["hugepages=$(reboot)", "hugepages=1 quiet", "quiet", 'x="'])
def test_word_that_is_no_argument_of_the_role_is_an_error(node: Debian, word: str):
    with pytest.raises(ValueError, match="not an argument of hugepages"):
        planned(node, [word])


def test_unknown_boot_loader_is_told_only_where_it_matters(machine: FakeMachine):
    machine.put("/proc/cmdline", "root=/dev/sda1\n")
    assert planned(machine, []).steps == []
    with pytest.raises(NotYet, match="no supported boot loader"):
        planned(machine, WANTED)


ENTRY = "/boot/loader/entries/abc-5.14.0-427.el9.x86_64.conf"
OLDER = "/boot/loader/entries/abc-5.14.0-362.el9.x86_64.conf"
MARK = "/var/lib/rdmaprov/kernel-arguments-hugepages"


@pytest.fixture
def red_hat(machine: FakeMachine) -> FakeMachine:
    for path in (ENTRY, OLDER, "/boot/loader/entries/abc-0-rescue.conf"):
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
