"""Packages of the Red Hat family, by dnf and rpm. Runs on the node."""

from __future__ import annotations

import re

from ..machine import CommandFailed, NodeError
from .manager import INSTALL_TIMEOUT_S, Manager, Offer, Package, Repository, disk_full, one_line

REPOSITORY = "rdmaprov-ofed"
_QUIET = ["dnf", "-q", "-y"]
_FORM = "%{NAME}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n"
_OFFER = "%{name}\t%{epoch}:%{version}-%{release}\t%{repoid}\n"


class Dnf(Manager):
    """Packages by dnf."""

    repository_file = f"/etc/yum.repos.d/{REPOSITORY}.repo"
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

    def lost_with(self, remove: list[str], install: list[Offer]) -> list[str]:  # noqa: ARG002
        """Return the packages that need those to be removed."""
        if not remove:
            return []
        try:
            self.machine.run(["rpm", "-e", "--test", *remove])
        except CommandFailed as error:
            return needed_by(error.output)
        return []

    def change(self, remove: list[str], install: list[Offer]) -> None:
        """Remove packages, then install others."""
        try:
            if remove:
                # Only what is named: what came along for another reason stays.
                keep = "--setopt=clean_requirements_on_remove=False"
                self._run([*_QUIET, keep, "--disableplugin=versionlock", "remove", *remove])
            if install:
                exact = [_exact(offer) for offer in install]
                options = ["--allowerasing", "--disableplugin=versionlock"]
                self._run([*_QUIET, *options, "install", *exact])
        except CommandFailed as error:
            names = ", ".join(offer.name for offer in install) or "packages"
            raise NodeError(f"{names} cannot be installed: {one_line(error.output)}") from error

    def held(self) -> set[str]:
        """Return the packages that versionlock keeps."""
        if "python3-dnf-plugin-versionlock" not in self.installed():
            return set()
        said = self.machine.run([*_QUIET, "versionlock", "list"])
        return set(re.findall(r"^!?(\S+?)-(?:\d+:)?\d\S*-\S+$", said, re.M))

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
            return self.machine.run(argv, timeout_s=INSTALL_TIMEOUT_S)
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


def _exact(offer: Offer) -> str:
    plain = offer.version.rpartition(":")[2]
    return offer.name if offer.name.endswith(plain) else f"{offer.name}-{offer.version}"


def _without_machine(kernel: str) -> str:
    return kernel.rpartition(".")[0]


def needed_by(said: str) -> list[str]:
    """Return the packages that rpm says need others, by name."""
    found = re.findall(r"is needed by \(installed\) (\S+)-[^-\s]+-[^-\s]+$", said, re.M)
    return sorted(set(found))
