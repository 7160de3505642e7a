"""Packages of Debian and Ubuntu, by apt and dpkg. Runs on the node."""

from __future__ import annotations

import re

from ..machine import CommandFailed, Machine, NodeError
from .manager import (
    LOCK_TIMEOUT_S,
    UPDATER,
    Manager,
    Offer,
    Package,
    Repository,
    burning,
    disk_full,
    one_line,
)

CANDIDATE = "/var/lib/rdmaprov/ofed-candidate.list"
# Nothing may ask: keep what the administrator wrote in /etc, and take the package's other files.
_QUIET = [
    "env",
    "DEBIAN_FRONTEND=noninteractive",
    "NEEDRESTART_MODE=l",  # Ubuntu's needrestart would restart services by itself
    "apt-get",
    "-q",
    "-y",
    "-o",
    f"DPkg::Lock::Timeout={LOCK_TIMEOUT_S}",
    "-o",
    "Dpkg::Options::=--force-confdef",
    "-o",
    "Dpkg::Options::=--force-confold",
]
_LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/cache/apt/archives/lock")
_SOLVE = ["--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages"]
_SIMULATE = ["apt-get", "-q", "-y", "-s"]
# A failed index must not pass because an older copy is there. [man apt-get: --error-on=any]
_UPDATE = ["update", "-o", "APT::Update::Error-Mode=any"]


class Apt(Manager):
    """Packages by apt."""

    repository_file = "/etc/apt/sources.list.d/rdmaprov-ofed.list"
    key_file = "/etc/apt/keyrings/rdmaprov-ofed.asc"

    def installed(self) -> dict[str, Package]:
        """Return the packages on the node, by name."""
        form = "${db:Status-Abbrev}\t${Package}\t${Version}\n"
        return statuses(self.machine.run(["dpkg-query", "-W", "-f", form]))

    def interrupted(self) -> bool:
        """Return whether dpkg has a journal that it did not end: apt refuses all work then."""
        return any(name.isdigit() for name in self.machine.names("/var/lib/dpkg/updates"))

    def repair(self, names: list[str], drop: list[str], tolerate: bool) -> None:
        """Finish interrupted installations."""
        # apt touches nothing while a package was cut in its files and no repository has it again.
        forced = ["--force-remove-reinstreq", "--force-depends", "--purge"]
        try:
            if drop:
                self._run(["dpkg", *forced, *drop])
            self._run(
                [
                    "env",
                    "DEBIAN_FRONTEND=noninteractive",
                    "dpkg",
                    "--configure",
                    "-a",
                    "--force-confdef",
                    "--force-confold",
                ]
            )
            fix = ["--fix-broken", "install"]
            if not self.burns and _burns(self.machine.run([*_SIMULATE, *fix])):
                raise burning("what is installed depends on it")
            self._run([*_QUIET, *fix])
        except CommandFailed as error:
            if not tolerate:
                raise self._said(error, ", ".join(names) + " cannot be finished") from error

    def repository(self, repository: Repository) -> str:
        """Return the text of a file of sources.list.d."""
        option = f"signed-by={repository.key}" if repository.key else "trusted=yes"
        return f"deb [{option}] {repository.url.rstrip('/')}/ ./\n"

    def offers(self, repository: Repository, names: list[str]) -> list[Offer]:
        """Return what a repository has, read by a file of its own: the node's are left alone."""
        self.machine.write(CANDIDATE, self.repository(repository))
        only = ["-o", f"Dir::Etc::SourceList={CANDIDATE}", "-o", "Dir::Etc::SourceParts=/dev/null"]
        keep = ["-o", "APT::Get::List-Cleanup=0"]
        try:
            self._run([*_QUIET, *only, *keep, *_UPDATE])
            said = self.machine.run(["apt-cache", *only, "madison", *names])
        except CommandFailed as error:
            raise _repository_error(repository.url, error) from error
        finally:
            self.machine.remove(CANDIDATE)
        return madison(said)

    def distribution(self, names: list[str]) -> list[Offer]:
        """Return what the node's repositories have."""
        try:
            self._run([*_QUIET, *_UPDATE])
        except CommandFailed as error:
            raise self._said(error, "the node's package indexes cannot be read") from error
        return madison(self.machine.run(["apt-cache", "madison", *names]))

    def lost_with(self, remove: list[str], install: list[Offer]) -> list[str]:
        """Return what apt would remove beyond what it is told to."""
        said = self._simulated(remove, install)[1]
        return [name for name in re.findall(r"^Remv (\S+)", said, re.M) if name not in remove]

    def _simulated(self, remove: list[str], install: list[Offer]) -> tuple[list[str], str]:
        """Return the words for apt, and what it would do; firmware is kept unless it may burn.

        Raises:
            Refused: the packages need what burns it.
        """
        words, simulate = _transaction(remove, install), [*_SIMULATE, *_SOLVE, "install"]
        try:
            said = self.machine.run([*simulate, *words])
        except CommandFailed as error:
            raise NodeError("apt cannot do this: " + _why(error)) from error
        if self.burns or not _burns(said):
            return words, said
        there = self.installed().get(UPDATER)
        words.append(f"{UPDATER}={there.version}" if there else f"{UPDATER}-")
        try:
            said = self.machine.run([*simulate, *words])
        except CommandFailed as error:
            raise burning(_why(error)) from error
        if _burns(said):
            raise burning("apt would install it all the same")
        return words, said

    def change(self, remove: list[str], install: list[Offer]) -> None:
        """Remove packages, then install others."""
        try:
            if remove:
                options = ["--allow-change-held-packages", "--purge", "remove"]
                self._run([*_QUIET, *options, *remove])
            if install:
                self._run([*_QUIET, *_SOLVE, "install", *self._simulated([], install)[0]])
        except CommandFailed as error:
            names = ", ".join(offer.name for offer in install) or "packages"
            raise self._said(error, f"{names} cannot be installed") from error

    def held(self) -> set[str]:
        """Return the packages on hold."""
        return set(self.machine.run(["apt-mark", "showhold"]).split())

    def hold(self, names: list[str]) -> None:
        """Put packages on hold."""
        self._run(["apt-mark", "hold", *names])

    def release(self, names: list[str]) -> None:
        """Take packages off hold."""
        self._run(["apt-mark", "unhold", *names])

    def headers(self, kernel: str) -> str:
        """Return the kernel's headers' package."""
        return f"linux-headers-{kernel}"

    def more_modules(self, kernel: str) -> str:
        """Return Ubuntu's package of modules that its smaller kernels lack."""
        ubuntu = re.search(r"^ID=\"?ubuntu", self.machine.read("/etc/os-release") or "", re.M)
        return f"linux-modules-extra-{kernel}" if ubuntu else ""

    def rdma_tools(self) -> list[str]:
        """Return Debian's packages for RDMA."""
        return ["rdma-core", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "perftest"]

    def _run(self, argv: list[str]) -> str:
        try:
            return self.machine.run(argv, timeout_s=self.timeout_s)
        except CommandFailed as error:
            if is_locked(error.output):
                holder = lock_holder(self.machine) or "another process"
                raise NodeError(
                    f"dpkg has been locked by {holder} for more than {LOCK_TIMEOUT_S} s: another "
                    "installation runs. Wait for it, or end it; then run this again"
                ) from error
            full = disk_full(error.output)
            if full:
                raise full from error
            raise

    def _said(self, error: CommandFailed, what: str) -> NodeError:
        return NodeError(f"{what}: {one_line(error.output)}")


def statuses(text: str) -> dict[str, Package]:
    """Return the packages in dpkg-query's answer; those that are removed or never were are not.

    The second letter is the state: i is whole, t and W wait for triggers (which the next run of
    dpkg does), U, F and H are halfway. [man dpkg-query.1]
    """
    found = {}
    for line in text.splitlines():
        status, name, version = line.split("\t")
        if status[1:2] in ("n", "c"):
            continue
        reinstall = status[2:3] == "R"
        found[name] = Package(name, version, status[1] in "itW" and not reinstall)
    return found


def madison(text: str) -> list[Offer]:
    """Return the offers in what `apt-cache madison` printed, the best of a package first."""
    found = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) == 3 and not words[2].endswith("Sources"):
            found.append(Offer(words[0], words[1], words[2].split(" ")[0]))
    return found


def is_locked(said: str) -> bool:
    """Return whether apt or dpkg complains about a lock of dpkg's."""
    return bool(
        re.search(r"Could not get lock|lock was locked by|Unable to acquire the dpkg", said)
    )


def lock_holder(machine: Machine) -> str:
    """Return the process that has dpkg's lock, empty if none has it any more.

    apt names it only where a terminal would show it; the kernel always does. [man proc_locks.5]
    """
    for lock in _LOCKS:
        stamp = machine.stamp(lock)
        if stamp is None:
            continue
        found = re.search(rf" (\d+) \w+:\w+:{stamp[2]} ", machine.read("/proc/locks") or "")
        if found:
            program = machine.value(f"/proc/{found.group(1)}/comm") or "unknown"
            return f"process {found.group(1)} ({program})"
    return ""


def unmet(said: str) -> str:
    """Return why apt's solver gave up, in one line."""
    lines = [" ".join(line.split()) for line in said.splitlines()]
    reasons = [line for line in lines if re.search(r"Depends:|Conflicts:|Breaks:", line)]
    return "; ".join(reasons[:3]) or one_line(said)


def _why(error: CommandFailed) -> str:
    """Return why apt's solver gave up: it prints that, and only then the error."""
    return unmet(f"{error.printed}\n{error.output}").rstrip(".")


def _burns(simulated: str) -> bool:
    """Return whether apt would install or configure what burns firmware."""
    return bool(re.search(rf"^(Inst|Conf) {UPDATER}\b", simulated, re.M))


def _transaction(remove: list[str], install: list[Offer]) -> list[str]:
    return [f"{offer.name}={offer.version}" for offer in install] + [f"{name}-" for name in remove]


def _repository_error(url: str, error: CommandFailed) -> NodeError:
    said = error.output
    unknown = re.search(r"NO_PUBKEY ([0-9A-F]+)", said)
    if unknown:
        return NodeError(
            f"{url}: it is signed by key {unknown.group(1)}, which ofed_repository_key_url does "
            "not have; write the repository's own key"
        )
    if re.search(r"is not signed|BADSIG|EXPKEYSIG|INVALIDARGUMENT|couldn't be verified", said):
        return NodeError(f"{url}: its signature cannot be verified: {one_line(said)}")
    return NodeError(
        f"{url}: the repository cannot be read: {one_line(said)}; is ofed_repository_url right?"
    )
