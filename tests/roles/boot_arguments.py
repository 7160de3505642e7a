"""A Debian node with GRUB, and what the role puts into its boot loader."""

from __future__ import annotations

import subprocess
from pathlib import Path

from plugins.module_utils import bootloader
from plugins.module_utils.bootloader import grub
from plugins.module_utils.plan import Plan
from tests.roles.fake import FakeMachine

NAMES = ("hugepagesz", "hugepages")
WANTED = ["hugepagesz=1G", "hugepages=2"]
KERNEL = "vmlinuz-6.1.0-40-amd64"
# From a Debian 12 node (grub-mkconfig 2.06), shortened.
CFG = """\
### BEGIN /etc/grub.d/10_linux ###
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-{root}' {{
\tlinux\t/boot/{kernel} root=UUID={root} ro console=ttyS0 {arguments}
\tinitrd\t/boot/initrd.img-6.1.0-40-amd64
}}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-{root}' {{
\tmenuentry 'Debian' --class os $menuentry_id_option 'gnulinux-6.1.0-advanced-{root}' {{
\t\tlinux\t/boot/{kernel} root=UUID={root} ro console=ttyS0 {arguments}
\t}}
\tmenuentry 'Debian (recovery)' $menuentry_id_option 'gnulinux-6.1.0-recovery-{root}' {{
\t\tlinux\t/boot/{kernel} root=UUID={root} ro single console=ttyS0
\t}}
}}
menuentry 'Other' $menuentry_id_option 'osprober-gnulinux-simple-x' {{
\tlinux\t/boot/vmlinuz-other root=/dev/sdb1
}}
"""


class Debian(FakeMachine):
    """A node whose grub-mkconfig reads its drop-ins, with a shell as the real one does."""

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
        """Return a grub.cfg whose kernels have these arguments."""
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
        """Start the kernel as the menu's first entry says."""
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
