"""Packages of the Red Hat family, by dnf and rpm. Runs on the node."""

from __future__ import annotations

import configparser
import fnmatch
import re

from ..machine import CommandFailed, NodeError
from .manager import UPDATER, Manager, Offer, Package, Repository, burning, disk_full, one_line

REPOSITORY = "rdmaprov-ofed"
_QUIET = ["dnf", "-q", "-y"]
# Its answer ends with an error where there is something to do, and has the table on stdout.
_PREVIEW = ["sh", "-c", '"$@" 2>&1 || true', "sh", "dnf", "--assumeno"]
_CONFIGURATION = "/etc/dnf/dnf.conf"
_DROP_INS = "/etc/dnf/libdnf5.conf.d"  # of dnf5
_MACHINE = re.compile(r"\.(noarch|x86_64|aarch64|i686|\*)$")
_FORM = "%{NAME}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n"
_OFFER = "%{name}\t%{epoch}:%{version}-%{release}\t%{repoid}\n"


class Dnf(Manager):
    """Packages by dnf."""

    repository_file = f"/etc/yum.repos.d/{REPOSITORY}.repo"
    dkms_origin = "EPEL"
    key_file = f"/etc/pki/rpm-gpg/RPM-GPG-KEY-{REPOSITORY}"

    def installed(self) -> dict[str, Package]:
        """Return the packages on the node, by name; of several versions, the last one."""
        found = {}
        for line in self.machine.run(["rpm", "-qa", "--qf", _FORM]).splitlines():
            name, version = line.split("\t")
            found[name] = Package(name, version)
            if name.startswith("kernel-"):  # of which several versions are there
                exact = f"{name}-{version.rpartition(':')[2]}"
                found[exact] = Package(exact, version)
        return found

    def repair(self, names: list[str], drop: list[str], tolerate: bool) -> None:
        """Do nothing: rpm has no halfway state; what is missing is installed."""

    def repository(self, repository: Repository) -> str:
        """Return the text of a file of yum.repos.d."""
        check = int(bool(repository.key))
        lines = [
            f"[{REPOSITORY}]",
            "name=RDMA drivers (rdmaprov)",
            f"baseurl={repository.url}",
            "enabled=1",
            f"gpgcheck={check}",
        ]
        return "\n".join(lines + ([f"gpgkey=file://{repository.key}"] if check else []) + [""])

    def offers(self, repository: Repository, names: list[str]) -> list[Offer]:
        """Return what a repository has, given on the command line: the node's are left alone."""
        only = ["--disablerepo=*", f"--repofrompath={REPOSITORY},{repository.url}"]
        try:
            said = self._run(
                [
                    *_QUIET,
                    *only,
                    f"--enablerepo={REPOSITORY}",
                    "--refresh",
                    "repoquery",
                    "--qf",
                    _OFFER,
                    *names,
                ]
            )
        except CommandFailed as error:
            why = one_line(error.output)
            raise NodeError(
                f"{repository.url}: the repository cannot be read: {why}; is "
                "ofed_repository_url right?"
            ) from error
        return parse_offers(said, names)

    def distribution(self, names: list[str]) -> list[Offer]:
        """Return what the node's other repositories have."""
        others = f"--disablerepo={REPOSITORY}"
        said = self._run([*_QUIET, others, "--refresh", "repoquery", "--qf", _OFFER, *names])
        return parse_offers(said, names)

    def lost_with(self, remove: list[str], install: list[Offer]) -> list[str]:
        """Return the packages that need those to be removed, and what dnf would remove besides."""
        lost = self._previewed(self._installing(remove, install)) if install else []
        try:
            if remove:
                self.machine.run(["rpm", "-e", "--test", *remove])
        except CommandFailed as error:
            lost += needed_by(error.output)
        return sorted({*lost} - {*remove})

    def _installing(self, remove: list[str], install: list[Offer]) -> list[str]:
        """Return dnf's words for an installation, which erases only where something is replaced."""
        there = self.installed()
        replaces = remove or any(offer.name in there for offer in install)
        options = ["--allowerasing"] if replaces else []
        options += [] if self.burns else [f"--exclude={UPDATER}*"]
        exact = [_exact(offer) for offer in install]
        return [*options, "--disableplugin=versionlock", "install", *exact]

    def _previewed(self, words: list[str]) -> list[str]:
        """Return the packages that dnf would remove.

        Raises:
            Refused: the packages need what burns firmware.
            NodeError: dnf cannot do it.
        """
        said = self.machine.run([*_PREVIEW, *words])
        if re.search(r"^(Operation aborted|Nothing to do)", said, re.M):
            return removed(said)
        why = problems(said)
        if UPDATER in why:
            raise burning(why)
        if "exclude filtering" in said:
            why += f" (exclude= or excludepkgs= in {_CONFIGURATION} or a repository's file)"
        raise NodeError(f"dnf cannot do this: {why}")

    def change(self, remove: list[str], install: list[Offer]) -> None:
        """Remove packages, then install others."""
        try:
            words = self._installing(remove, install)  # while what is replaced is there
            if remove:
                # Only what is named: what came along for another reason stays.
                keep = "--setopt=clean_requirements_on_remove=False"
                self._run([*_QUIET, keep, "--disableplugin=versionlock", "remove", *remove])
            if install:
                self._run([*_QUIET, *words])
        except CommandFailed as error:
            names = ", ".join(offer.name for offer in install) or "packages"
            raise NodeError(f"{names} cannot be installed: {one_line(error.output)}") from error

    def held(self) -> set[str]:
        """Return the packages that versionlock or an administrator's exclude= keeps."""
        there = self.installed()
        paths = [f"{_DROP_INS}/{name}" for name in self.machine.names(_DROP_INS)]
        texts = [self.machine.read(path) or "" for path in (_CONFIGURATION, *paths)]
        excluded = [each for text in texts for each in excludes(text)]
        kept = {name for name, each in there.items() if _is_kept(each, excluded)}
        if "python3-dnf-plugin-versionlock" not in there:
            return kept
        said = self.machine.run([*_QUIET, "versionlock", "list"])
        return kept | set(re.findall(r"^!?(\S+?)-(?:\d+:)?\d\S*-\S+$", said, re.M))

    def hold(self, names: list[str]) -> None:
        """Lock packages at their version."""
        if "python3-dnf-plugin-versionlock" not in self.installed():
            self._run([*_QUIET, "install", "python3-dnf-plugin-versionlock"])
        self._run([*_QUIET, "versionlock", "add", *names])

    def release(self, names: list[str]) -> None:
        """Unlock packages."""
        self._run([*_QUIET, "versionlock", "delete", *names])

    def headers(self, kernel: str) -> str:
        """Return the kernel's package for compiling modules."""
        return f"kernel-devel-{_without_machine(kernel)}"

    def more_modules(self, kernel: str) -> str:
        """Return the kernel's package of less common modules."""
        return f"kernel-modules-extra-{_without_machine(kernel)}"

    def rdma_tools(self) -> list[str]:
        """Return the Red Hat family's packages for RDMA."""
        return ["rdma-core", "libibverbs", "libibverbs-utils", "librdmacm-utils", "perftest"]

    def _run(self, argv: list[str]) -> str:
        try:
            return self.machine.run(argv, timeout_s=self.timeout_s)
        except CommandFailed as error:
            full = disk_full(error.output)
            if full:
                raise full from error
            raise


def parse_offers(text: str, names: list[str]) -> list[Offer]:
    """Return the offers in what `dnf repoquery` printed, the newest first.

    Args:
        names: what was asked for; a kernel's package is asked for, and then called, by its version.
    """
    found = []
    for line in reversed(text.splitlines()):
        if line.count("\t") == 2:
            name, version, origin = line.split("\t")
            exact = f"{name}-{version.rpartition(':')[2]}"
            found.append(Offer(exact if exact in names else name, version, origin))
    return found


def removed(said: str) -> list[str]:
    """Return what `dnf --assumeno` would remove: its own sections, and what others replace."""
    found, is_removing = [], False
    for line in said.splitlines():
        if re.match(r"\S", line):
            is_removing = line.startswith("Removing")
        name = re.match(r" (\S+)", line) if is_removing else None
        name = name or re.match(r"\s+replacing\s+(\S+)\.\w+\s", line)
        if name:
            found.append(name[1])
    return found


def problems(said: str) -> str:
    """Return in one line why dnf's solver gave up."""
    lines = [line.strip(" -") for line in said.partition("Error:")[2].splitlines()]
    return "; ".join([line for line in lines if line][:5]) or one_line(said)


def excludes(text: str) -> list[str]:
    """Return the patterns of names that dnf.conf keeps away from upgrades; none if it is broken."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return []
    main = parser["main"] if parser.has_section("main") else {}
    words = " ".join(main.get(key, "") for key in ("exclude", "excludepkgs"))
    return re.split(r"[,\s]+", words.strip()) if words.strip() else []


def _is_kept(package: Package, patterns: list[str]) -> bool:
    """Return whether a pattern is of a package, by one of the forms that dnf knows."""
    version = package.version.rpartition(":")[2]
    forms = [package.name, f"{package.name}-{version}", f"{package.name}-{package.version}"]
    plain = [_MACHINE.sub("", each) for each in patterns]
    return any(fnmatch.fnmatchcase(form, each) for form in forms for each in plain)


def _exact(offer: Offer) -> str:
    plain = offer.version.rpartition(":")[2]
    return offer.name if offer.name.endswith(plain) else f"{offer.name}-{offer.version}"


def _without_machine(kernel: str) -> str:
    return kernel.rpartition(".")[0]


def needed_by(said: str) -> list[str]:
    """Return the packages that rpm says need others, by name."""
    found = re.findall(r"is needed by \(installed\) (\S+)-[^-\s]+-[^-\s]+$", said, re.M)
    return sorted(set(found))
