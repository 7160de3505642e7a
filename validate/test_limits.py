"""Locked-memory limits of logins, services and jobs, and sysctl settings."""

import pytest
from testinfra.host import Host

from rdmaprov.facts import memlock, slurm, sysctl, units
from rdmaprov.facts.text import read_files
from rdmaprov.inventory import Node
from rdmaprov.validate.verdict import AFTER_REBOOT, CONFIGURED, RUNNING, Setting, not_applicable

pytestmark = pytest.mark.state


def test_memlock_of_a_login_running(host: Host, node: Node) -> None:
    """A login has the site's locked-memory limit."""
    for kind, seen in zip(("soft", "hard"), memlock.login_limits(host), strict=True):
        where = f"ulimit -{kind[0].upper()} -l"
        _require_memlock(node, "login", kind, where, memlock.limit_text(seen))


def test_memlock_of_logins_configured(host: Host, node: Node) -> None:
    """The configuration gives each of the site's users the limit at the next login."""
    files = read_files(host, *memlock.LIMITS)
    for user in node.get("limits_memlock_users"):
        found = memlock.file_limits(files, user)
        for kind in ("soft", "hard"):
            text, path = found.get(kind, ("", "/etc/security/limits.d"))
            seen = memlock.limit_text(memlock.in_kib(text, path)) if text else None
            _require_memlock(node, f"login of {user}", kind, path, seen, CONFIGURED)


def test_memlock_of_services_configured(host: Host, node: Node) -> None:
    """Each installed service gets the limit from systemd at its next start."""
    for unit, seen in _services(host, node).items():
        for kind, key in (("soft", "LimitMEMLOCKSoft"), ("hard", "LimitMEMLOCK")):
            value = memlock.in_bytes(seen.get(key, ""), f"{unit} {key}")
            where = f"systemctl show {unit} --property={key}"
            _require_memlock(node, unit, kind, where, memlock.limit_text(value), CONFIGURED)


def test_memlock_of_services_running(host: Host, node: Node) -> None:
    """Each running service has the limit, which its children inherit."""
    installed = sorted(_services(host, node))
    for unit, limits in memlock.service_limits(host, installed).items():
        for kind, seen in zip(("soft", "hard"), limits, strict=True):
            where = f"/proc/PID/limits of {unit}'s main process"
            _require_memlock(node, unit, kind, where, memlock.limit_text(seen))


def test_memlock_of_slurm_jobs(host: Host, node: Node) -> None:
    """Slurm's jobs get the node's limit, not that of the shell that submits them."""
    if "slurmd.service" not in _services(host, node):
        not_applicable("limits_memlock_services: slurmd is not installed or not listed")
    from_submitter, where = slurm.memlock_comes_from_the_submitter(host)
    if from_submitter:
        Setting(
            node,
            "slurmd",
            "memlock of jobs",
            "limits_memlock",
            where=where,
            truth=CONFIGURED,
            look="scontrol show config; set PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, "
            "then run: scontrol reconfigure",
        ).reject("the submitter's", "the node's")


def test_sysctl_running(host: Host, node: Node) -> None:
    """The kernel runs with the site's sysctl settings."""
    wanted = _settings(node)
    files = read_files(host, *(sysctl.path_of(name) for name in sorted(wanted)))
    for name, value in wanted.items():
        path = sysctl.path_of(name)
        Setting(node, "kernel", name, "limits_sysctl", where=path).require(
            _same_blanks(files.must(path)), _same_blanks(value)
        )


def test_sysctl_after_reboot(host: Host, node: Node) -> None:
    """The next boot sets the site's sysctl settings."""
    at_boot = sysctl.at_boot(read_files(host, *sysctl.PATHS))
    for name, value in _settings(node).items():
        seen, file = at_boot.get(sysctl.path_of(name), (None, "/etc/sysctl.d"))
        Setting(node, "kernel", name, "limits_sysctl", where=file, truth=AFTER_REBOOT).require(
            seen if seen is None else _same_blanks(seen), _same_blanks(value)
        )


def _require_memlock(
    node: Node, device: str, kind: str, where: str, seen: str | None, truth: str = RUNNING
) -> None:
    __tracebackhide__ = True
    wanted = memlock.limit_text(memlock.in_kib(node.get("limits_memlock"), "limits_memlock"))
    Setting(node, device, f"{kind} memlock", "limits_memlock", where, truth).require(seen, wanted)


def _services(host: Host, node: Node) -> dict[str, dict[str, str]]:
    """Return the properties of those of the site's services that are installed, by unit."""
    names = node.get("limits_memlock_services")
    if not names:
        not_applicable("limits_memlock_services: []")
    asked = [name if name.endswith(".service") else f"{name}.service" for name in names]
    shown = units.show(host, *asked)
    found = {each["Id"]: dict(each) for each in shown.values() if each["LoadState"] == "loaded"}
    if not found:
        not_applicable(f"not installed: {', '.join(asked)}")
    for unit, each in found.items():
        if each.get("NeedDaemonReload") == "yes":
            where, fix = f"systemctl show {unit}", "systemctl daemon-reload"
            setting = Setting(
                node, unit, "unit's file", "limits_memlock_services", where, CONFIGURED, fix=fix
            )
            setting.reject("changed and not read", "read")
    return found


def _settings(node: Node) -> dict[str, str]:
    settings = {str(name): str(value) for name, value in node.get("limits_sysctl").items()}
    if not settings:
        not_applicable("limits_sysctl: {}")
    return settings


def _same_blanks(text: str) -> str:
    return " ".join(text.split())
