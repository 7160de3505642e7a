"""Runs of fleets of any size, as the verbs' own code writes them."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from plugins.module_utils.roles import ORDER

from rdmaprov.apply.events import Change, NodeEvent, RolePlan, Survey
from rdmaprov.apply.results import Results
from rdmaprov.apply.run import ApplyRequest, document
from rdmaprov.inventory import Node
from rdmaprov.validate import run as validate_run
from rdmaprov.validate.results import CheckResults
from rdmaprov.validate.verdict import Setting

SITE = Path("inventory/prod")
STARTED = datetime(2026, 3, 2, 9, 12, tzinfo=UTC)
BOOT_ID = "5b0ff6c1-2a0e-4c8b-9d3f-0a1b2c3d4e5f"
ROLES = tuple(role for role in ORDER if role != "torch_runtime")
TESTS = {
    "test_fabric.py": ("test_rail_is_up", "test_rail_has_its_address"),
    "test_hugepages.py": ("test_hugepages_running",),
    "test_limits.py": ("test_memlock",),
    "test_links.py": ("test_port_is_active", "test_rate"),
    "test_mlx5.py": ("test_parameter_running",),
    "test_mtu.py": ("test_mtu_running", "test_mtu_after_reboot"),
    "test_nccl.py": ("test_nccl_conf",),
    "test_ofed.py": ("test_driver_is_pinned",),
    "test_pcie.py": ("test_max_read_request",),
    "test_roce_qos.py": ("test_pfc_running", "test_trust"),
    "test_torch_runtime.py": ("test_torch_is_there",),
}
OF_RAIL = {"test_fabric.py", "test_links.py", "test_mtu.py", "test_roce_qos.py"}


def names(count: int) -> tuple[str, ...]:
    return tuple(f"gpu{n:0{len(str(count))}}" for n in range(1, count + 1))


def plain(data: dict[str, Any]) -> dict[str, Any]:
    return cast(dict[str, Any], json.loads(json.dumps(data)))


# --- validate -----------------------------------------------------------------------------------
def validated(count: int, *, bad: bool = True, rails: int = 8) -> dict[str, Any]:
    """Return a run of the suite; if bad, nodes with wrong MTUs, one that is lost, and skips."""
    fleet = names(count)
    findings = CheckResults(fleet)
    for node in fleet:
        for file, functions in TESTS.items():
            for function in functions:
                for device in range(rails) if file in OF_RAIL else [None]:
                    _judge(findings, fleet, node, (file, function, device), bad)
    report(findings, "test_uniformity.py::test_same_driver", "", "passed")
    findings.asked.boots = dict.fromkeys(fleet, (BOOT_ID, 86400.0))
    for name, counts in findings.by_node.items():
        findings.asked.due[name] = sum(counts.values())
    request = validate_run.ValidateRequest(SITE, None, None, ())
    ended = STARTED + timedelta(seconds=75)
    return plain(validate_run.document(request, STARTED, ended, findings.exit_code(), findings))


def _judge(findings, fleet, node, test, bad):
    file, function, rail = test
    name = f"{file}::{function}[{node}{f'-rail{rail}' if rail is not None else ''}]"
    if bad and node == fleet[1]:
        address = f"198.51.100.{len(fleet) % 200 + 1}"
        why = f"{node}: unreachable: ssh: connection refused (ssh to {address} port 22)"
        report(findings, name, node, "error", why)
    elif bad and function == "test_mtu_running" and node in fleet[:: max(2, len(fleet) // 12)]:
        fix = f"rdmaprov apply {SITE} --limit {node} --roles mtu"
        device = f"ens{rail + 1}"
        where = f"/sys/class/net/{device}/mtu"
        mtu = _setting(node, device, "MTU", "fabric_mtu_bytes", where=where, fix=fix)
        report(findings, name, node, "failed", mtu.text(1500, 9000))
    elif bad and function == "test_trust" and node == fleet[-1] and rail == 3:
        fix = f"rdmaprov apply {SITE} --limit {node}"
        trust = _setting(node, "ens4", "trust", "roce_qos_trust", where="dcb app show", fix=fix)
        report(findings, name, node, "failed", trust.text("pcp", "dscp"))
    elif function == "test_torch_is_there":
        report(findings, name, node, "skipped", f"{node}: torch_runtime_mode is off")
    else:
        report(findings, name, node, "passed")


def _setting(node: str, *what: str, **more: str) -> Setting:
    return Setting(cast(Node, SimpleNamespace(name=node)), *what, **more)


def report(findings: CheckResults, name: str, node: str, outcome: str, message: str = "") -> None:
    file, _, function = name.partition("::")
    where: Any = (file, 1, f"Skipped: {message}") if outcome == "skipped" else message or None
    rail = re.search(r"-rail(\d+)\]", name)
    about: list[Any] = [("node", node)] if node else []
    when: Any = "setup" if outcome == "error" else "call"
    state: Any = "failed" if outcome == "error" else outcome
    findings.pytest_runtest_logreport(
        pytest.TestReport(
            name,
            (file, 1, function),
            {},
            state,
            where,
            when,
            user_properties=[*about, ("rail", int(rail[1]))] if rail else about,
        )
    )


# --- plan, apply --------------------------------------------------------------------------------
def applied(count: int, verb: str = "apply", *, bad: bool = True) -> dict[str, Any]:
    """Return a run of roles; if bad, one node fails, one is lost, one is incomplete."""
    fleet = names(count)
    results = Results(fleet, applies=verb == "apply")
    for number, node in enumerate(fleet):
        _applied(results, node, number, verb, bad)
    request = ApplyRequest(verb, SITE, fleet, None, (), {}, ())
    return plain(document(request, STARTED, STARTED + timedelta(seconds=3725), results))


def _applied(results: Results, node: str, number: int, verb: str, bad: bool) -> None:
    mtu = tuple(
        Change(layer, f"ens{rail}", "MTU", "1500", "9000")
        for rail in range(1, 9)
        for layer in ("running", "configured")
    )
    limits = (Change("configured", "", "memlock", "none", "unlimited"),)
    plans = dict.fromkeys(ROLES, RolePlan())
    changed = {"mtu": RolePlan(mtu), "limits": RolePlan(limits)} if number % 3 == 0 or bad else {}
    if bad and number % 7 == 2:
        changed["nccl"] = RolePlan(waits="the rails' addresses, which fabric sets")
    before = Survey({**plans, **changed}, tuple(changed))

    def hear(kind: str, role: str = "", **more: Any) -> None:
        results.record(NodeEvent(kind, node, role, f"Set {role}" if role else "Read it", **more))

    if bad and number == 1:
        hear("unreachable", message="ssh: connect to host 198.51.100.2 port 22: No route to host")
        return
    hear("done", survey=before, seconds=2.5)
    if verb == "plan":
        return
    for role, plan in changed.items():
        if bad and number == 2 and role == "limits":
            hear("failed", role, message="/etc/security/limits.d cannot be written: disk is full")
            return
        if bad and number == 3 and role == "limits":
            hear("started", role)
            return
        hear("done", role, changed=True, changes=plan.changes, seconds=1.5)
    if changed:
        why = ("the kernel argument iommu=pt is not running",) if bad and number % 5 == 0 else ()
        hear("done", survey=Survey({**plans, "pcie": RolePlan(reboot=why)}))
