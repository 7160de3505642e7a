"""A made-up node with hugepages, and what the role is given."""

import shutil
from pathlib import Path
from typing import Any

from plugins.module_utils.converge import converge
from plugins.module_utils.hugepages.hugetlb import directory_of, pools
from plugins.module_utils.roles import hugepages
from tests.roles.fake import FakeMachine, given

SMALL, LARGE = 2048, 1048576
OF_64K = (524288, 16777216)
UNIT = "/etc/systemd/system/rdmaprov-hugepages.service"
LINK = "/etc/systemd/system/sysinit.target.wants/rdmaprov-hugepages.service"
CFG = "/boot/grub/grub.cfg"
ENTRY = (
    "menuentry 'x' $menuentry_id_option 'gnulinux-simple-1' {{\n linux /boot/vmlinuz-6.1.0 "
    "root=/dev/sda1 ro {}\n}}\n"
)


class Node(FakeMachine):
    """A node of 64 GiB on two NUMA nodes; `room` is how many pages their memory has."""

    def prepare(self) -> None:
        self.room = {0: 20000, 1: 20000}
        self.written: list[str] = []
        self.put("/sys/devices/system/node/has_normal_memory", "0-1\n")
        self.put("/proc/meminfo", f"MemTotal:       {64 << 20} kB\n")
        self.put("/proc/sys/kernel/osrelease", "6.1.0\n")
        self.put("/proc/cmdline", "root=/dev/sda1 ro\n")
        self.put("/boot/vmlinuz-6.1.0")
        self.put(CFG, ENTRY.format("quiet"))
        for kib in (SMALL, LARGE):
            self.put(f"/sys/kernel/mm/hugepages/hugepages-{kib}kB/resv_hugepages", "0\n")
            for numa_node in (0, 1):
                self.pool(numa_node, kib, 0)
        for numa_node in (0, 1):
            path = f"/sys/devices/system/node/node{numa_node}/meminfo"
            self.put(path, f"Node {numa_node} MemTotal:       {32 << 20} kB\n")
        self.programs = {
            "systemctl daemon-reload": "",
            "systemctl enable rdmaprov-hugepages.service": self._enable,
            "grub-mkconfig -o": self._mkconfig,
        }

    def have_64k_pages(self) -> None:
        """Have the page sizes of an Arm kernel with memory pages of 64 KiB."""
        for numa_node in (0, 1):
            shutil.rmtree(self.path(directory_of(numa_node, LARGE)))
            for kib in OF_64K:
                self.pool(numa_node, kib, 0)
        for kib in OF_64K:
            self.put(f"/sys/kernel/mm/hugepages/hugepages-{kib}kB/resv_hugepages", "0\n")
        self.put("/proc/meminfo", f"MemTotal: {64 << 20} kB\nHugepagesize:  {512 << 10} kB\n")

    def pool(self, numa_node: int, kib: int, pages: int, used: int = 0, surplus: int = 0) -> None:
        directory = directory_of(numa_node, kib)
        self.put(f"{directory}/nr_hugepages", f"{pages}\n")
        self.put(f"{directory}/free_hugepages", f"{pages - used}\n")
        self.put(f"{directory}/surplus_hugepages", f"{surplus}\n")

    def pages(self, kib: int = SMALL) -> list[int]:
        return [pool.pages for pool in pools(self, kib)]

    def set(self, name: str, value: str) -> None:
        """As the kernel: takes any number of pages, gives what there is room for."""
        self.written.append(name)
        if name.endswith("/nr_hugepages"):
            numa_node = int(name.split("/node/node")[1][0])
            kib = int(name.partition("hugepages-")[2].partition("kB")[0])
            self.pool(numa_node, kib, min(int(value), self.room[numa_node]))

    def _enable(self, argv: list[str]) -> str:  # noqa: ARG002
        self.link(LINK, UNIT)
        return ""

    def _mkconfig(self, argv: list[str]) -> str:
        drop_in = self.read("/etc/default/grub.d/zz-rdmaprov-hugepages.cfg") or '="quiet"'
        words = drop_in.partition('="')[2].replace("$GRUB_CMDLINE_LINUX_DEFAULT", "quiet")
        Path(argv[2]).write_text(ENTRY.format(words.partition('"')[0]))
        return ""

    def boot(self) -> None:
        """Start the kernel anew: pools are what its command line says, and then the unit."""
        line = (self.read(CFG) or "").partition("vmlinuz-6.1.0 ")[2].splitlines()[0]
        self.put("/proc/cmdline", line + "\n")
        for numa_node in (0, 1):
            self.pool(numa_node, SMALL, 0)
            self.pool(numa_node, LARGE, 2 if "hugepages=4" in line else 0)
        words = (self.read(UNIT) or "").partition("' sh")[2].partition("\n\n")[0].split()
        words = [word for word in words if word != "\\"] if self.exists(LINK) else []
        for path, count in zip(words[::2], words[1::2], strict=True):
            self.set(path, count)


def arguments(**changed: object) -> dict[str, Any]:
    return given("hugepages", **{"left_bytes": 1 << 30, **changed})


def run(node: Node, *, check: bool = False, **changed: object) -> dict[str, Any]:
    return converge(node, hugepages, arguments(**changed), check=check)
