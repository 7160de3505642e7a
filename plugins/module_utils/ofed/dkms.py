"""Kernel modules that a node compiles itself, by DKMS. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..machine import CommandFailed, Machine, NodeError

BUILD_TIMEOUT_S = 3600
TREE = "/var/lib/dkms"
_ERROR = r"\berror\b|\*\*\*"


@dataclass(frozen=True)
class Source:
    """Sources of modules that DKMS knows."""

    name: str
    version: str
    installed: frozenset[str]


def parse(text: str) -> list[Source]:
    """Return the sources in what `dkms status` printed.

    DKMS 3 prints `name/version, kernel, arch: state`, DKMS 2 a comma for the slash; sources that
    are built for no kernel are `name/version: added`.
    """
    kernels: dict[tuple[str, str], set[str]] = {}
    for line in text.splitlines():
        what, _, state = line.partition(": ")
        words = [word.strip() for word in re.split(r"[,/]", what, maxsplit=1)]
        if len(words) != 2 or not state:
            continue
        version, *rest = [word.strip() for word in words[1].split(",")]
        known = kernels.setdefault((words[0], version), set())
        if rest and state.split()[0] == "installed":
            known.add(rest[0])
    return [Source(*key, frozenset(known)) for key, known in sorted(kernels.items())]


def sources(machine: Machine) -> list[Source]:
    """Return the sources that DKMS knows; none without DKMS."""
    return parse(machine.run(["dkms", "status"])) if machine.has("dkms") else []


def install(machine: Machine, source: Source, kernel: str, again: bool = False) -> None:
    """Have a kernel's modules of these sources, compiled anew if that is asked for.

    Raises:
        NodeError: they cannot be compiled.
    """
    what = f"{source.name}/{source.version}"
    force = ["--force"] if again else []
    try:
        for verb in ("build", "install"):
            machine.run(["dkms", verb, what, "-k", kernel, *force], timeout_s=BUILD_TIMEOUT_S)
    except CommandFailed as error:
        why = failure(machine, source.name) or " ".join(error.output.split())
        raise NodeError(f"DKMS cannot install {what} for kernel {kernel}: {why}") from error


def failure(machine: Machine, name: str) -> str:
    """Return why the last compilation failed, in one line; empty if no log tells.

    DKMS moves the log away when it was done.
    """
    for version in machine.names(f"{TREE}/{name}"):
        log = f"{TREE}/{name}/{version}/build/make.log"
        lines = (machine.read(log) or "").splitlines()
        telling = [line.strip() for line in lines if re.search(_ERROR, line, re.I)]
        if telling:
            return (
                f"{name} {version} does not compile: {telling[0]} ({log}). Boot a kernel that "
                "this version supports, or write another ofed_version"
            )
    return ""
