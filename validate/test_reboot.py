"""No reboot is required, and the last one succeeded."""

import pytest
from testinfra.host import Host

from rdmaprov.facts import boot, software
from rdmaprov.facts.text import END, read_files, whole
from rdmaprov.inventory import Node
from rdmaprov.validate.verdict import AFTER_REBOOT, Setting, reboot

pytestmark = pytest.mark.state

_RELEASE = "/proc/sys/kernel/osrelease"
# Arguments of the kernel that roles own.
_OWNED = ("default_hugepagesz", "hugepagesz", "hugepages", "iommu", "iommu.passthrough")
_FAILED = (
    f"systemctl list-units --all --failed --plain --no-legend --no-pager 'rdmaprov-*'; echo {END}"
)


def test_drivers_on_disk_run(host: Host, node: Node) -> None:
    """Each loaded module of the RDMA stack is the one on disk."""
    for name, module in software.modules(host, on_disk=True).items():
        if module.source and module.disk_source and module.source != module.disk_source:
            where = f"modinfo {name}; /sys/module/{name}/srcversion"
            setting = Setting(
                node, name, "driver on disk", "ofed_version", where, AFTER_REBOOT, fix=reboot(node)
            )
            setting.reject(
                _said(module.disk_version, module.disk_source),
                f"the one that runs, {_said(module.version, module.source)}",
            )


def test_running_kernel_has_its_modules(host: Host, node: Node) -> None:
    """The running kernel's modules are on disk: its package was not removed."""
    release = read_files(host, _RELEASE).must(_RELEASE)
    path = f"/lib/modules/{release}/modules.dep"
    text = read_files(host, path).get(path)
    Setting(
        node, f"kernel {release}", "modules", "reboot_policy", where=path, fix="systemctl reboot"
    ).require("absent" if text is None else "present", "present")


def test_kernel_runs_with_what_a_boot_gives(host: Host, node: Node) -> None:
    """The running kernel has the arguments that the next boot gives it."""
    lines = boot.read(host)
    for entry in lines.entries:
        where = f"{lines.running.file}, {entry.file}"
        setting = Setting(node, "kernel", "command line", "reboot_policy", where, fix=reboot(node))
        setting.require(lines.running.arguments(_OWNED), entry.arguments(_OWNED))


def test_units_of_rdmaprov_have_not_failed(host: Host, node: Node) -> None:
    """No rdmaprov unit has failed."""
    body = whole(host.run(_FAILED).stdout, "systemctl list-units")
    failed = [line.split()[0].lstrip("●*") or line for line in body.splitlines() if line.strip()]
    if failed:
        where, look = "systemctl list-units --failed 'rdmaprov-*'", f"journalctl -u {failed[0]}"
        setting = Setting(node, failed[0], "unit", "reboot_policy", where, look=look)
        setting.reject("failed", "no failure")


def _said(version: str, source: str) -> str:
    return f"{version} ({source})" if version else source
