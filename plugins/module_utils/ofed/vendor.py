"""The vendor's RDMA drivers: DOCA-OFED or MLNX_OFED, of one version. Runs on the node."""

from __future__ import annotations

import re
from typing import Any

from ..machine import CommandFailed, Machine, NodeError
from ..packages import Manager, Offer, Package
from ..packages.manager import UPDATER, matches
from ..plan import CONFIGURED, Change, Plan, Refused, with_the_first
from . import dkms, driver, ofed_info, package_names, vendor_repository
from .vendor_repository import Origin
from .work import Work, exchange, exchanges

_VERSIONS = {
    "doca": (r"latest|\d+\.\d+(\.\d+)?([.-][\w.]+)?", "3.1.0"),
    "mlnx_ofed": (r"\d+\.\d+-\d+(\.\d+)+", "24.10-1.1.4.0"),
}
LATEST = "latest"


def work(machine: Machine, manager: Manager, arguments: dict[str, Any]) -> Work:
    """Return what makes a vendor's drivers of one version the node's.

    Raises:
        Refused: the site asks for what cannot be, or the kernel would not load them.
    """
    source, version = arguments["source"], arguments["version"]
    form, example = _VERSIONS[source]
    if not re.fullmatch(form, version):
        raise Refused(
            f"ofed_version: '{version}' is not a version of {source}; write one, such as {example}"
        )
    origin = vendor_repository.site_origin(machine, manager, arguments)
    installed = manager.installed()
    remove = _others(installed, source)
    name = meta(arguments)
    burns = manager.burns and UPDATER not in installed
    due = bool(remove) or burns or not _is_there(installed, name, version)
    if due or driver.different(machine):
        refuse_unsigned(machine, source)

    def add(plan: Plan) -> None:
        _origin(plan, manager, origin, name, version)
        if due or _headers(machine, manager):
            _packages(plan, manager, arguments, origin, remove)
        if due:
            exchanges(plan)
            if manager.burns:
                effect = f"{UPDATER} burns its firmware, which takes effect after a reset"
                plan.interrupt("firmware of all NICs", effect, "for several minutes each")
            if _lacks_dkms(manager, arguments):
                plan.notes.append(f"DOCA {version} needs dkms, which is {manager.dkms_origin}'s")

    return Work(add, due, remove)


def meta(arguments: dict[str, Any]) -> str:
    """Return the package that pulls in the rest."""
    return "mlnx-ofed-all" if arguments["source"] == "mlnx_ofed" else str(arguments["profile"])


def _lacks_dkms(manager: Manager, arguments: dict[str, Any]) -> bool:
    """Return whether the drivers need a dkms that is neither there nor the distribution's.

    From 3.2 on, DOCA has them for DKMS alone.
    """
    found = re.match(r"(\d+)\.(\d+)", arguments["version"])
    has_built = found is not None and (int(found[1]), int(found[2])) < (3, 2)
    is_doca = arguments["source"] == "doca"
    is_there = "dkms" in manager.installed()
    return is_doca and bool(manager.dkms_origin) and not has_built and not is_there


def check(machine: Machine, arguments: dict[str, Any]) -> None:
    """Raise Refused for tools that say they are of another flavour or version than the packages."""
    info, source, version = ofed_info.read(machine), arguments["source"], arguments["version"]
    if info is None and source == "doca":
        return  # a profile may come without it
    if info is None:
        raise Refused(
            "ofed_info is missing, although mlnx-ofed-all is installed. Run on the node: "
            "apt-get install --reinstall ofed-scripts"
        )
    # DOCA's own version is not OFED's: 3.1.0 has OFED-internal-25.07-0.9.7.
    same = source == "doca" or matches(info.version, version) or matches(version, info.version)
    if info.flavour != source or not same:
        raise Refused(
            f"ofed_info -s says {info.flavour} {info.version}, expected {source} {version} "
            "(ofed_version); is there a second ofed_info on PATH?"
        )


def _others(installed: dict[str, Package], source: str) -> list[str]:
    """Return the vendor's packages to remove first: all of them, if another flavour is there."""
    if package_names.flavours(installed) <= {source}:
        return []
    return sorted(name for name, each in installed.items() if package_names.is_vendors_only(each))


def _is_there(installed: dict[str, Package], name: str, version: str) -> bool:
    package = installed.get(name)
    return (
        package is not None
        and package.whole
        and (version == LATEST or matches(package.version, version))
    )


def _origin(plan: Plan, manager: Manager, origin: Origin, name: str, version: str) -> None:
    """Have the key and the repository, once both are verified with the packages to install."""
    machine = plan.machine
    if origin.archive and not vendor_repository.is_unpacked(machine, origin):
        change = Change(CONFIGURED, origin.archive, "archive", "absent", "unpacked")
        plan.add(change, lambda: vendor_repository.unpack(machine, origin))
    key, changes = origin.repository.key, []
    if not key:
        plan.absent(manager.key_file)
    problem = _key_problem(machine, key, origin) if key else ""
    if problem:
        wanted = origin.fingerprint or "present"
        changes.append(Change(CONFIGURED, key, "signing key", problem, wanted))
    file = manager.repository_file
    if not machine.stands(file, vendor_repository.text(manager, origin)):
        seen = "another one" if machine.exists(file) else "absent"
        changes.append(Change(CONFIGURED, file, "repository", seen, origin.repository.url))

    def do() -> None:
        with vendor_repository.candidate(machine, origin) as repository:
            _offer(manager.offers(repository, [name]), origin, name, version)
            vendor_repository.keep(machine, manager, origin)

    for index, change in enumerate(changes):
        plan.add(change, with_the_first if index else do)


def _key_problem(machine: Machine, key: str, origin: Origin) -> str:
    """Return what is wrong with the key that is there, or with who may change it."""
    problem = vendor_repository.key_problem(machine.read(key), origin.fingerprint)
    seen = machine.access(key)
    return problem or ("" if seen == machine.own(0o644) else str(seen))


def _packages(
    plan: Plan, manager: Manager, arguments: dict[str, Any], origin: Origin, remove: list[str]
) -> None:
    machine, name, version = plan.machine, meta(arguments), arguments["version"]
    installed = manager.installed()
    package = installed.get(name)
    seen = ", ".join(sorted(package_names.flavours(installed) - {arguments["source"]}))
    seen = seen or (f"{package.version}" if package else "absent")
    headers = _headers(machine, manager)
    setting = "version and kernel headers" if headers else "version"
    change = Change(CONFIGURED, name, setting, seen, version)
    plan.add(change, lambda: _install(machine, manager, arguments, origin, remove))


def _install(
    machine: Machine, manager: Manager, arguments: dict[str, Any], origin: Origin, remove: list[str]
) -> None:
    """Install, after everything that can be known beforehand is known to be right."""
    name, installed = meta(arguments), manager.installed()
    headers = list(_headers(machine, manager).values())
    shared = [
        each
        for each, package in installed.items()
        if remove and package_names.is_shared_from_vendor(package)
    ]
    wanted = [name, *headers, *shared, *remove, UPDATER, "dkms"]
    offers = manager.offers(origin.repository, wanted)
    chosen = [_offer(offers, origin, name, arguments["version"])]
    chosen += _first(offers, shared)
    if manager.burns:
        chosen.append(_offer(offers, origin, UPDATER, LATEST))
    if _lacks_dkms(manager, arguments) and not (
        _first(offers, ["dkms"]) or manager.distribution(["dkms"])
    ):
        raise Refused(
            f"{name} {arguments['version']} compiles its drivers by dkms, which no repository of "
            f"the node has; it is {manager.dkms_origin}'s: add that repository. Nothing was changed"
        )
    compile_with = _header_offers(machine, manager, offers)
    try:
        _compile_with(machine, manager, compile_with)
        exchange(machine, manager, remove, chosen, tuple(_first(offers, remove)))
    except NodeError as error:
        why = dkms.failure(machine, driver.SOURCE)
        raise NodeError(f"{error}; {why}") if why else error from error


def _compile_with(machine: Machine, manager: Manager, headers: list[Offer]) -> None:
    """Have kernels' headers before what compiles with them, also within one run of apt.

    A package that waits for them may be finished in the same run, too early: its error is no
    reason to stop once they are there.
    """
    if not headers:
        return
    try:
        exchange(machine, manager, [], headers)
    except NodeError:
        if _headers(machine, manager):
            raise
    for kernel, package in _headers(machine, manager).items():
        raise NodeError(
            f"{package} is installed, but /lib/modules/{kernel}/build/Makefile is missing. "
            f"Run on the node: apt-get install --reinstall {package}"
        )


def _headers(machine: Machine, manager: Manager) -> dict[str, str]:
    """Return the kernels that modules cannot be compiled for, and the package that helps."""
    kernels = driver.kernels(machine)
    return {each: manager.headers(each) for each in kernels if driver.lacks_headers(machine, each)}


def _header_offers(machine: Machine, manager: Manager, offers: list[Offer]) -> list[Offer]:
    lacking = _headers(machine, manager)
    found = _first(offers, list(lacking.values()))
    rest = [name for name in lacking.values() if name not in {offer.name for offer in found}]
    found += _first(manager.distribution(rest), rest) if rest else []
    names = {offer.name for offer in found}
    for kernel, package in lacking.items():
        if package not in names:
            raise Refused(
                f"kernel {kernel}: modules cannot be compiled for it without its headers, and no "
                f"repository of the node has {package}; boot a kernel with available headers, or "
                "add the repository that has them"
            )
    return found


def _first(offers: list[Offer], names: list[str]) -> list[Offer]:
    found: dict[str, Offer] = {}
    for offer in offers:
        if offer.name in names:
            found.setdefault(offer.name, offer)
    return list(found.values())


def _offer(offers: list[Offer], origin: Origin, name: str, version: str) -> Offer:
    """Return the version to install."""
    mine = [offer for offer in offers if offer.name == name]
    for offer in mine:
        if version == LATEST or matches(offer.version, version):
            return offer
    there = ", ".join(offer.version for offer in mine[:5]) or "no version of it"
    raise NodeError(
        f"{origin.repository.url} has {there}, expected {name} {version} (ofed_version); "
        "write one that it has, or another ofed_repository_url"
    )


_VARIABLE = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_ENFORCED = "/sys/module/module/parameters/sig_enforce"
_LOCKDOWN = "/sys/kernel/security/lockdown"
# Where DKMS, and Ubuntu's DKMS, keep the certificate of the key that they sign modules with.
_CERTIFICATES = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")


def required_by(machine: Machine) -> str:
    """Return what makes the kernel refuse unsigned modules, empty if nothing does."""
    variable = machine.read(_VARIABLE)
    # Four bytes of attributes, then the value. [Linux Documentation/filesystems/efivarfs.rst]
    if variable is not None and variable[4:5] == "\x01":
        return "Secure Boot is on"
    if (machine.value(_ENFORCED) or "N") == "Y":
        return f"the kernel enforces signatures ({_ENFORCED})"
    lockdown = machine.value(_LOCKDOWN) or ""
    if "[integrity]" in lockdown or "[confidentiality]" in lockdown:
        return f"the kernel is locked down ({_LOCKDOWN})"
    return ""


def refuse_unsigned(machine: Machine, what: str) -> None:
    """Refuse modules that are compiled here where the kernel would not load them.

    Raises:
        Refused: it would not, and the message says what to sign them with, and how.
    """
    why = required_by(machine)
    if not why:
        return
    key = next((path for path in _CERTIFICATES if machine.exists(path)), "")
    start = f"{why}, and {what} compiles its modules on the node: mlx5_core and the others must be "
    if not key:
        raise Refused(
            f"{start}signed with a key of the node's own, and there is none ({_CERTIFICATES[1]}). "
            "Run on the node: dkms generate_mok (Ubuntu: update-secureboot-policy --new-key), then "
            f"{enroll(_CERTIFICATES[1])}; or write ofed_source: inbox"
        )
    if not _is_enrolled(machine, key):
        raise Refused(
            f"{start}signed with {key}, which the firmware does not know. "
            f"Run on the node: {enroll(key)}; or write ofed_source: inbox"
        )


def enroll(key: str) -> str:
    """Return how a key becomes known to the firmware."""
    return f"mokutil --import {key}, reboot, and choose Enroll MOK at the console"


def _is_enrolled(machine: Machine, key: str) -> bool:
    """Return what mokutil says; its exit code differs between versions."""
    try:
        said = machine.run(["mokutil", "--test-key", key])
    except CommandFailed as error:
        said = error.output
    return "is already enrolled" in said
