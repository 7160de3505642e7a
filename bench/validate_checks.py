"""60 checks as a testinfra user writes them: 20 files, 20 sysctls, 10 packages, 10 commands."""

from __future__ import annotations

SYSCTLS = [
    "kernel.pid_max",
    "kernel.panic",
    "kernel.hostname",
    "kernel.ostype",
    "kernel.osrelease",
    "vm.swappiness",
    "vm.overcommit_memory",
    "vm.dirty_ratio",
    "vm.max_map_count",
    "vm.min_free_kbytes",
    "fs.file-max",
    "fs.nr_open",
    "net.ipv4.ip_forward",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.core.somaxconn",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.conf.all.arp_filter",
]
FILES = [
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/fstab",
    "/etc/shells",
    "/etc/profile",
    "/etc/os-release",
    "/etc/ssh/sshd_config",
    "/etc/resolv.conf",
    "/etc/hostname",
    "/bin/sh",
    "/usr/bin/env",
    "/usr/sbin/sshd",
    "/dev/null",
    "/proc/cpuinfo",
    "/sys/class/net",
    "/sys/kernel",
    "/run",
    "/root",
    "/var/lib",
]
PACKAGES = [
    "bash",
    "coreutils",
    "dpkg",
    "grep",
    "gzip",
    "hostname",
    "libc6",
    "login",
    "mount",
    "openssh-server",
]
RUNS = [
    "cat /proc/version",
    "cat /proc/meminfo",
    "cat /sys/class/net/lo/mtu",
    "uname -r",
    "hostname",
    "ls /sys/class/net",
    "id -u",
    "cat /proc/cmdline",
    "cat /proc/filesystems",
    "cat /proc/uptime",
]


def tests(share: int) -> str:
    """Return the 60 checks as a test file, or a part of each kind of them."""
    text = "import pytest\n"
    for kind, names, check in (
        ("file", FILES, "host.file(name).exists"),
        ("sysctl", SYSCTLS, "host.sysctl(name) is not None"),
        ("package", PACKAGES, "host.package(name).is_installed"),
        ("run", RUNS, "host.run(name).rc == 0"),
    ):
        for number, name in enumerate(names[: len(names) // share]):
            text += f"def test_{kind}{number}(host):\n    name = {name!r}\n    assert {check}\n"
    return text
