"""What a run replaced, taken back role by role. Runs on the node.

What a boot reads comes back: files, and which units start. What runs stays until a reboot, so
nothing here interrupts traffic but a link manager that reads its files again.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from functools import partial
from typing import Any

from . import busy, guard
from .bootloader import bls, grub
from .bootloader.line import Owned
from .kmod import initramfs
from .links import MANAGERS, LinkManager
from .links.networkd import Networkd
from .machine import Access, Machine, NodeError
from .ofed import holds
from .plan import CONFIGURED, RUNNING, Change, Plan, Refused, Step
from .replaced import STORE, as_text, digest, kept, unit_state
from .roles import ORDER
from .roles.mlx5 import OWN
from .survey import interruptions

# Built again from what comes back, as another kernel may have been installed since; and which
# packages are held, as they stay.
_NOT_COPIED = ("/boot/", initramfs.SEEN, holds.OURS)
_MARK = "/var/lib/rdmaprov/kernel-arguments-"
_UNITS = "/etc/systemd/system/"
_TOLD = (
    (_UNITS, ["systemctl", "daemon-reload"]),
    ("/etc/udev/rules.d/", ["udevadm", "control", "--reload"]),
)
# The device's name in the name of a file of ours.
_NETDEV = re.compile(r".*/(?:9[01]-)?rdmaprov-(?:mtu-)?(.+)\.(?:nmconnection|yaml)")
_AT_BOOT = ("/etc/modprobe.d/", "/etc/modules-load.d/", grub.DROP_INS + "/", _MARK, _UNITS)
# What systemctl was told: the state that it is about, and what ends and what begins that state.
_ENABLED, _MASKED = ("enabled", ("disable", "enable")), ("masked", ("unmask", "mask"))
_STATES = {"enable": _ENABLED, "disable": _ENABLED, "mask": _MASKED, "unmask": _MASKED}
# Their files name packages; the packages stay.
_INSTALLS = ("ofed", "torch_runtime")
_MOST_NAMED = 4


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return the steps that take back what a role wrote in a run.

    Raises:
        Refused: somebody changed a file since, or it was not kept.
    """
    change, role = arguments["run"], arguments["role"]
    found = kept(machine, change)
    files, units, changes = (
        [each for each in found[name] if each["role"] == role]
        for name in ("files", "units", "changes")
    )
    made = Plan(machine)
    boot, was_in = _boot(machine), found["reverted"].get(role)
    if was_in in (None, boot):
        made.notes += _stays(role, files, changes)
        made.reboot += _for_a_reboot(role, files, units, changes)
    if was_in is not None:
        return made
    own = [each for each in files if not each["path"].startswith(_NOT_COPIED)]
    _refuse(machine, change, own)
    _plan_units(made, units, ("disable", "unmask"))
    _plan_grubby(made, role, changes)
    for entry in reversed(own):
        if not _is_back(machine, entry):
            wanted = {"absent": "absent", "link": "the former link"}.get(entry["kind"])
            seen = "absent" if not entry["after"] else "as the run wrote it"
            what = Change(CONFIGURED, entry["path"], "content", seen, wanted or "the former file")
            made.add(what, partial(_put_back, machine, change, entry))
    made.steps.append(Step(None, partial(_remove_directories, machine, files)))
    _tell(made, role, [each["path"] for each in files], files)
    _plan_units(made, units, ("enable", "mask"))
    made.steps.append(Step(None, partial(_mark, machine, change, role, boot)))
    return made


def survey(
    machine: Machine, change: str, asked: list[str], made: str, *, refuse_busy: bool
) -> dict[str, Any]:
    """Return what would be taken back, as survey.survey returns what a run would change.

    Args:
        asked: the roles; empty for all of the run.
        made: whether the run changed the node: "yes", "no", or "unknown".
        refuse_busy: whether a node in use is a problem, if traffic is interrupted.
    """
    nothing: dict[str, Any] = {"changes": [], "reboot": [], "interrupts": []}
    roles, problems = dict.fromkeys(reversed(ORDER), nothing), []
    found = kept(machine, change)
    there = {each["role"] for name in ("files", "units", "changes") for each in found[name]}
    if not there and made == "yes":
        problems.append(f"{STORE}/{change} is gone: a node keeps its last changes, 64 MiB of them")
    if not there and made == "unknown":
        return {"skipped": True}
    pending = []
    for role in [each for each in reversed(ORDER) if each in there and each in (asked or there)]:
        try:
            steps = plan(machine, {"run": change, "role": role})
        except NodeError as error:
            problems.append(f"{role}: {error}")
            continue
        roles[role] = {
            "changes": steps.changes(),
            "reboot": steps.reboot,
            "interrupts": steps.interrupts,
            "stays": steps.notes,
        }
        pending += [role] if steps.steps else []
    interrupts = interruptions(roles)
    users = busy.users(machine) if interrupts else []
    if users and refuse_busy:
        problems.append(busy.refusal(users, interrupts))
    return {
        "roles": roles,
        "pending": pending,
        "problems": problems,
        "busy": users,
        "boot_id": _boot(machine),
    }


def _boot(machine: Machine) -> str:
    return machine.value("/proc/sys/kernel/random/boot_id") or ""


def _seen(machine: Machine, path: str) -> tuple[str, str]:
    """Return what stands at a path: its kind, and a file's digest or a link's target."""
    there = machine.path(path)
    try:
        found = os.lstat(there)
    except (FileNotFoundError, NotADirectoryError):
        return "absent", ""
    if stat.S_ISLNK(found.st_mode):
        return "link", os.readlink(there)
    if not stat.S_ISREG(found.st_mode):
        return "other", ""
    with open(there, "rb") as file:
        return "file", digest(file.read())


def _is_ours(machine: Machine, entry: dict[str, Any]) -> bool:
    """Return whether what the role wrote still stands there, with its access, or was before."""
    ours = ("file", entry["after"]) if entry["after"] else ("absent", "")
    access = machine.access(entry["path"])
    wrote = entry.get("access")  # none of a file that it removed, and in older lists
    is_same = not (access and wrote) or [access.mode, access.user, access.group] == wrote
    return (is_same and _seen(machine, entry["path"]) == ours) or _is_back(machine, entry)


def _before(entry: dict[str, Any]) -> tuple[str, str]:
    return entry["kind"], entry.get("target") or entry.get("before", "")


def _is_back(machine: Machine, entry: dict[str, Any]) -> bool:
    access = machine.access(entry["path"])
    is_same = _seen(machine, entry["path"]) == _before(entry)
    return is_same and (entry["kind"] != "file" or access == _access(entry))


def _access(entry: dict[str, Any]) -> Access:
    return Access(entry["mode"], entry["user"], entry["group"])


def _refuse(machine: Machine, change: str, files: list[dict[str, Any]]) -> None:
    """Refuse a role of which a file is another one by now, or cannot come back."""
    wrong = []
    for entry in files:
        path = entry["path"]
        if not _is_ours(machine, entry):
            wrong.append(f"{path} was changed since{_by(machine, change, path)}")
        elif not _is_back(machine, entry) and (
            entry["kind"] == "other" or (entry["kind"] == "file" and entry["content"] is None)
        ):
            why = "too large" if entry["kind"] == "file" else "no file"
            wrong.append(f"{path} was not kept, as it was {why}")
    if wrong:
        raise Refused(f"{'; '.join(wrong)}. It is left alone; --roles takes back the other roles")


def _by(machine: Machine, change: str, path: str) -> str:
    """Return which other run wrote what stands at a path now, for a message."""
    seen = _seen(machine, path)[1]
    for other in reversed(machine.names(STORE)):
        with contextlib.suppress(NodeError):  # it is damaged
            for each in kept(machine, other)["files"] if other != change else ():
                if each["path"] == path and each["after"] == seen:
                    return f" by the run {other}: revert that one first"
    return ""


def _put_back(machine: Machine, change: str, entry: dict[str, Any]) -> None:
    path = entry["path"]
    if not _is_ours(machine, entry):
        raise NodeError(f"{path} was changed meanwhile")
    if entry["kind"] == "absent":
        machine.remove(path)
    elif entry["kind"] == "link":
        there = machine.path(path)
        fresh = f"{os.path.dirname(there)}/.rdmaprov-{secrets.token_hex(4)}"
        os.symlink(entry["target"], fresh)
        os.chown(fresh, entry["user"], entry["group"], follow_symlinks=False)
        os.replace(fresh, there)
    else:
        text = machine.read(f"{STORE}/{change}/{entry['content']}")
        data = (text or "").encode("utf-8", "surrogateescape")
        if text is None or digest(data) != entry["before"]:
            raise NodeError(f"the copy of {path} in {STORE}/{change} is damaged")
        machine.write(path, text, access=_access(entry))


def _remove_directories(machine: Machine, files: list[dict[str, Any]]) -> None:
    """Remove the directories that the run made, where nothing is in them any more."""
    made = {each for entry in files for each in entry.get("directories", ())}
    for directory in sorted(made, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(machine.path(directory))


def _mark(machine: Machine, change: str, role: str, boot: str) -> None:
    found = kept(machine, change)
    found["reverted"][role] = boot
    machine.write(f"{STORE}/{change}/index.json", as_text(found), 0o600)


def _plan_units(plan: Plan, units: list[dict[str, Any]], verbs: tuple[str, ...]) -> None:
    """Have systemctl bring back what it said of units before; once the files are there, or not."""
    for each in reversed(units):
        word, (undo, redo) = _STATES[each["did"]]
        seen = unit_state(plan.machine, each["unit"])
        was, now = each["before"].startswith(word), seen.startswith(word)
        verb = redo if was else undo
        if was != now and verb in verbs:
            change = Change(CONFIGURED, each["unit"], "start at boot", seen, each["before"])
            plan.command(change, ["systemctl", verb, each["unit"]])


def _plan_grubby(plan: Plan, role: str, changes: list[dict[str, Any]]) -> None:
    """Have the boot entries with the arguments of before; the role's mark has their names."""
    names = " ".join((plan.machine.read(_MARK + role) or "").split())
    for each in changes if names else ():
        if each["device"] == bls.ENTRIES:
            edit = ["grubby", "--update-kernel=ALL"]
            plan.then([*edit, f"--remove-args={names}"])
            if each["seen"] != "none":
                plan.then([*edit, f"--args={each['seen'].partition(' | ')[0]}"])


def _tell(plan: Plan, role: str, paths: list[str], files: list[dict[str, Any]]) -> None:
    """Have those that read the files read them again, and make anew what is made of them."""
    machine = plan.machine
    for directory, argv in _TOLD:
        if any(path.startswith(directory) for path in paths) and machine.has(argv[0]):
            plan.then(argv)
    for each in files:
        is_setting = each["path"].startswith("/etc/sysctl.d/") and each["kind"] != "absent"
        if is_setting and machine.has("sysctl"):
            plan.then(["sysctl", "-q", "-p", machine.path(each["path"])])
    if any(path.startswith(grub.DROP_INS + "/") for path in paths) and grub.Grub.runs(machine):
        plan.steps.append(Step(None, lambda: grub.regenerate(machine, Owned(role, (), ()))))
    forget = any(each["path"] == initramfs.SEEN and each["kind"] == "absent" for each in files)
    if {OWN, initramfs.SEEN} & {*paths} and initramfs.was_looked_into(machine):
        plan.steps.append(Step(None, partial(_renew_initramfs, machine, forget)))
    for manager in MANAGERS.values():
        directory = f"{manager.tree or manager.directory}/"
        of_manager = [path for path in paths if path.startswith(directory)]
        if of_manager and manager.runs(machine):
            _plan_reading(plan, role, manager(machine), of_manager)


def _renew_initramfs(machine: Machine, forget: bool) -> None:
    """Make each initramfs anew that has another file of ours than the node by now."""
    text = machine.read(OWN) or ""
    images = [
        image if image.inside.own == text else initramfs.rebuild(machine, image, OWN)
        for image in initramfs.images(machine, OWN)
    ]
    if forget:
        machine.remove(initramfs.SEEN)
    else:
        initramfs.keep(machine, images)


def _plan_reading(plan: Plan, role: str, manager: LinkManager, paths: list[str]) -> None:
    """Have a link manager read its files, unless that would interrupt the management path."""
    machine, name = plan.machine, manager.name
    netdevs = [found[1] for found in map(_NETDEV.match, paths) if found]
    if name == Networkd.name:
        written = {path: machine.read(path) or "" for path in paths}
        netdevs = Networkd(machine).disturbed(written)
    on_the_way = sorted({*netdevs} & {*guard.ways(machine)}) if manager.reading_interrupts else []
    if on_the_way:
        plan.reboot.append(
            f"{role}: {name} reads its files at the next boot: to read them now would interrupt "
            f"{', '.join(on_the_way)}, which is on the management path"
        )
        return
    for netdev in netdevs if manager.reading_interrupts else ():
        plan.interrupt(f"{netdev} {name}", manager.reading_interrupts, "for about 1 s")
    manager.plan_reading(plan, netdevs)


def _stays(role: str, files: list[dict[str, Any]], changes: list[dict[str, Any]]) -> list[str]:
    """Return what the run configured that no file brings back: firmware, packages, and so on."""
    paths = [each["path"] for each in files]
    return [
        f"{each['device']} {each['setting']} was {each['seen'] or 'empty'}, stays {each['wanted']}"
        for each in changes
        if each["layer"] == CONFIGURED and not _comes_back(role, paths, each)
    ]


def _comes_back(role: str, paths: list[str], change: dict[str, Any]) -> bool:
    device = change["device"]
    if device == bls.ENTRIES:
        return " | " not in change["seen"]  # of several, nobody knows which had which
    if role in _INSTALLS:
        return False
    return device.startswith("/boot/") or any(
        f"{path}/".startswith(f"{device}/") or os.path.basename(path) == device for path in paths
    )


def _for_a_reboot(role: str, *kinds: list[dict[str, Any]]) -> Iterator[str]:
    """Yield why only a reboot ends what the run did."""
    files, units, changes = kinds
    runs = [f"{each['device']} {each['setting']}" for each in changes if each["layer"] == RUNNING]
    runs += [each["unit"] for each in units]
    runs += [each["path"] for each in files if each["path"].startswith(_AT_BOOT)]
    if runs:
        named = busy.some(list(dict.fromkeys(runs)), _MOST_NAMED)
        yield f"{role}: what runs stays as it is until a reboot ({named})"
