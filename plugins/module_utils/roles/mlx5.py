"""Parameters of the RDMA stack's kernel modules, and the NICs' firmware. Runs on the node."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import nic_firmware
from ..kmod import initramfs, modprobe, parameters, reload
from ..kmod.parameters import Parameter
from ..machine import Machine
from ..plan import CONFIGURED, RUNNING, Change, Plan, Refused, Step, with_the_first
from ..rails import find

OWN = "/etc/modprobe.d/rdmaprov.conf"
HEADER = "# Written by rdmaprov (mlx5); changes here are lost.\n"


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for modules and NICs to match the site, now and after a boot.

    What can be set while a module is loaded is set first: the kernel refuses a value that it
    does not take, which in modprobe.d would keep the module from loading.
    """
    plan = Plan(machine)
    wanted = parameters.site_parameters(machine, arguments["module_parameters"])
    text = _text(wanted)
    options = modprobe.options(machine, {OWN: text})
    _refuse_others(options, wanted)
    settings, version = arguments["firmware_settings"], arguments["firmware_version"]
    profiles = arguments["firmware_profiles"]
    if (settings or version or profiles) and not machine.is_image:
        rails, kind = find(machine, arguments["rails"]), arguments.get("kind", "roce")
        nic_firmware.add(plan, rails, settings, version, profiles, kind)
    at_load = [] if machine.is_image else _running(plan, wanted)
    _plan_file(plan, wanted, text)
    _initramfs(plan, wanted, text, arguments["initramfs"])
    _at_load(plan, at_load, arguments["reload"])
    return plan


def _text(wanted: list[Parameter]) -> str:
    """Return our file's text, empty for no file."""
    values: dict[str, dict[str, str]] = {}
    for each in wanted:
        values.setdefault(each.module, {})[each.name] = each.wanted
    lines = [modprobe.line(module, values[module]) for module in sorted(values)]
    return HEADER + "".join(line + "\n" for line in lines) if lines else ""


def _refuse_others(options: list[modprobe.Option], wanted: list[Parameter]) -> None:
    for each in wanted:
        option = modprobe.effective(options, each.module, each.name)
        if option is not None and option.file != OWN and not each.is_met_by(option.value):
            raise Refused(
                f"{each.module} {each.name}: {option.file} sets {option.value}, which "
                f"overrides {OWN}, expected {each.wanted}: remove it there"
            )


def _running(plan: Plan, wanted: list[Parameter]) -> list[tuple[Parameter, parameters.Running]]:
    """Add what can be set now; return what only loading the module sets."""
    at_load = []
    for each in wanted:
        seen = parameters.running(plan.machine, each)
        if seen is None or each.is_met_by(seen.value):
            continue
        if seen.writable:
            _set(plan, each, seen)
        else:
            at_load.append((each, seen))
    return at_load


def _set(plan: Plan, each: Parameter, seen: parameters.Running) -> None:
    change = Change(RUNNING, each.module, each.name, seen.value, each.wanted)
    plan.add(change, lambda: plan.machine.set(seen.path, each.wanted))


def _plan_file(plan: Plan, wanted: list[Parameter], text: str) -> None:
    """Have our file, as one step with a change for each parameter that it changes."""
    if not text:
        plan.absent(OWN)
        return
    before = modprobe.options(plan.machine)
    changes = []
    for each in wanted:
        option = modprobe.effective(before, each.module, each.name)
        if option is None or not each.is_met_by(option.value):
            seen = "none" if option is None else option.value
            changes.append(Change(CONFIGURED, each.module, each.name, seen, each.wanted))
    plan.file(OWN, text, change=changes[0] if changes else None)
    for change in changes[1:]:
        plan.add(change, with_the_first)


def _initramfs(plan: Plan, wanted: list[Parameter], text: str, when: str) -> None:
    """Have each initramfs built again that would give a module something else at boot."""
    machine = plan.machine
    if when == "never" or not (text or initramfs.was_looked_into(machine)):
        return
    images = initramfs.images(machine, OWN)
    stale = [image for image in images if _is_stale(image.inside, wanted, text, when)]
    if stale and initramfs.builder(machine) == "dracut":
        # A generic one (hostonly=no) has no file of /etc/modprobe.d otherwise. [man dracut.conf.5]
        configuration = f'{HEADER}install_optional_items+=" {OWN} "\n'
        plan.file(initramfs.DRACUT_CONFIGURATION, configuration)
    for image in stale:
        _rebuild(plan, image, images, text)
    if plan.steps and not stale and not initramfs.is_kept(machine, images):
        plan.steps.append(Step(None, lambda: initramfs.keep(machine, images)))


def _is_stale(inside: initramfs.Inside, wanted: list[Parameter], text: str, when: str) -> bool:
    """Return whether a boot with it would give other parameters to a module that matters in it."""

    def matters(module: str) -> bool:
        return when == "always" or module in inside.modules

    was, will = (
        [option for option in modprobe.in_file(each, OWN) if matters(option.module)]
        for each in (inside.own, text)
    )
    return was != will or any(
        not each.is_met_by(inside.options.get(each.module, {}).get(each.name, ""))
        for each in wanted
        if matters(each.module)
    )


def _rebuild(plan: Plan, image: initramfs.Image, images: list[initramfs.Image], text: str) -> None:
    def do() -> None:
        images[images.index(image)] = initramfs.rebuild(plan.machine, image, OWN)
        initramfs.keep(plan.machine, images)

    seen, wanted = (each.replace(HEADER, "").strip() or "none" for each in (image.inside.own, text))
    seen = "overridden" if seen == wanted else seen.replace("\n", "; ")
    change = Change(CONFIGURED, image.path, "module options", seen, wanted.replace("\n", "; "))
    plan.add(change, do)
    plan.is_long = True


def _at_load(
    plan: Plan, different: list[tuple[Parameter, parameters.Running]], allowed: str
) -> None:
    """Add the reloads that are allowed and do no harm, and reasons for a reboot for the others."""
    machine = plan.machine
    for module in machine.names(reload.UNLOADED):
        change = Change(RUNNING, module, "reload", "interrupted", "finished")
        plan.add(change, partial(reload.finish, machine, module))
    planned: set[str] = set()
    for each, seen in different:
        why = reload.obstacle(machine, each.module) if allowed == "if-needed" else ""
        if allowed == "never" or why:
            plan.reboot.append(
                f"{each.module} {each.name} is {seen.value}, expected {each.wanted}: read only "
                f"when the module is loaded ({seen.path})"
                + (f"; not reloaded: {why}" if why else "")
            )
            continue
        change = Change(RUNNING, each.module, each.name, seen.value, each.wanted)
        first = each.module not in planned
        planned.add(each.module)
        plan.add(change, partial(reload.reload, machine, each.module) if first else with_the_first)
        plan.interrupt(
            f"{each.module} reload", "the devices of its driver disappear", "for 5 to 30 s"
        )
        reload.takes_nvlsm(plan, f"{each.module} reload")
