"""What a test of the suite says when a node is not as the site says: one line, always the same."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

import pytest

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.inventory import Node
from rdmaprov.problem import printable

# The three truths of a setting.
CONFIGURED = "configured"  # what its file says
RUNNING = "running"  # what the kernel and the devices do now
AFTER_REBOOT = "after reboot"  # what the next boot makes of it


def require(
    node: Node,
    device: str,
    setting: str,
    *,
    seen: object,
    wanted: object,
    variable: str,
    where: str,
    truth: str = RUNNING,
    run: str = "",
) -> None:
    """Fail the test unless what was seen is what is wanted.

    Args:
        node: the node that is judged.
        device: the part of it: a network device, an RDMA device, a NUMA node, a file.
        setting: what of the device.
        seen, wanted: values; the message has them as text.
        variable: the site's variable that says so.
        where: where it was read.
        truth: CONFIGURED, RUNNING or AFTER_REBOOT.
        run: what to run; `rdmaprov apply` for this node if it is empty.

    """
    __tracebackhide__ = True
    if seen != wanted:
        reject(
            node,
            device,
            setting,
            seen=seen,
            wanted=wanted,
            variable=variable,
            where=where,
            truth=truth,
            run=run,
        )


def reject(
    node: Node,
    device: str,
    setting: str,
    *,
    seen: object,
    wanted: object,
    variable: str,
    where: str,
    truth: str = RUNNING,
    run: str = "",
) -> NoReturn:
    """Fail the test; arguments as of `require`."""
    __tracebackhide__ = True
    raise AssertionError(
        finding(
            node,
            device,
            setting,
            seen=seen,
            wanted=wanted,
            variable=variable,
            where=where,
            truth=truth,
            run=run,
        )
    )


def finding(
    node: Node,
    device: str,
    setting: str,
    *,
    seen: object,
    wanted: object,
    variable: str,
    where: str,
    truth: str = RUNNING,
    run: str = "",
) -> str:
    """Return the line that says what is wrong; arguments as of `require`."""
    of = f"{node.name} {device}" if device else node.name
    return printable(
        f"{of}: {truth}: {setting} is {_said(seen)}, wanted {_said(wanted)} "
        f"({variable}; {where}). Run: {run or apply(node)}"
    )


def settle(findings: Sequence[str], unknown: Sequence[str]) -> None:
    """Fail a test about many nodes with a line for each finding; unknown ones are an error.

    Raises:
        CouldNotTell: nothing was found, and some could not be told.

    """
    __tracebackhide__ = True
    if findings:
        raise AssertionError("\n".join([*findings, *unknown]))
    if unknown:
        raise CouldNotTell("; ".join(unknown))


def apply(node: Node, role: str = "") -> str:
    """Return the command line that makes the node what the site says."""
    site = os.environ.get("RDMAPROV_INVENTORY", "SITE")
    return f"rdmaprov apply {site} --limit {node.name}" + (f" --roles {role}" if role else "")


def not_applicable(why: str) -> NoReturn:
    """Skip the test; the reason is one that a person would accept."""
    pytest.skip(why)


def needs_roce(node: Node, what: str) -> None:
    """Skip the test on InfiniBand."""
    if node.get("fabric_kind") != "roce":
        not_applicable(f"ib: {what} does not apply")


def _said(value: object) -> str:
    if value is None:
        return "absent"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(_said(each) for each in value) or "none"
    return str(value) if str(value) else "empty"
