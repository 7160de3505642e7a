"""Runs of fleets of any size, as the verbs' own code writes them."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from plugins.module_utils.roles import ORDER
from tests.unit import accept_runs, made_samples

from rdmaprov.acceptance.counters import RailTraffic
from rdmaprov.acceptance.finding import Finding
from rdmaprov.acceptance.plan import JobPlane
from rdmaprov.acceptance.result import GLOO_NOTE, GateResult
from rdmaprov.acceptance.samples.fleet import FleetSamples, collect_samples
from rdmaprov.apply.events import Change, NodeEvent, RolePlan, Survey
from rdmaprov.apply.results import Results
from rdmaprov.apply.run import ApplyRequest, document
from rdmaprov.bandwidth import floor
from rdmaprov.bandwidth.fabric import Fabric
from rdmaprov.cli import accept_run
from rdmaprov.inventory import Node
from rdmaprov.runs.envelope import Head
from rdmaprov.validate import run as validate_run
from rdmaprov.validate.results import CheckResults
from rdmaprov.validate.verdict import Setting

SITE = Path("inventory/prod")
STARTED = datetime(2026, 3, 2, 9, 12, tzinfo=UTC)
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
    """Return data as results.json has it."""
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
    request = validate_run.ValidateRequest(SITE, None, None, ())
    ended = STARTED + timedelta(seconds=75)
    return plain(validate_run.document(request, STARTED, ended, findings.exit_code(), findings))


def _judge(findings, fleet, node, test, bad):
    file, function, rail = test
    name = f"{file}::{function}[{node}{f'-rail{rail}' if rail is not None else ''}]"
    if bad and node == fleet[1]:
        report(
            findings,
            name,
            node,
            "error",
            f"{node}: unreachable: ssh: connection refused "
            f"(ssh to 198.51.100.{len(fleet) % 200 + 1} port 22)",
        )
    elif bad and function == "test_mtu_running" and node in fleet[:: max(2, len(fleet) // 12)]:
        said = _setting(
            node,
            f"ens{rail + 1}",
            "MTU",
            "fabric_mtu_bytes",
            where=f"/sys/class/net/ens{rail + 1}/mtu",
            fix=f"rdmaprov apply {SITE} --limit {node} --roles mtu",
        ).text(1500, 9000)
        report(findings, name, node, "failed", said)
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
    """Have findings hear a report of pytest's own class."""
    file, _, function = name.partition("::")
    where: Any = (file, 1, f"Skipped: {message}") if outcome == "skipped" else message or None
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
            user_properties=[("node", node)] if node else [],
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


# --- accept -------------------------------------------------------------------------------------
def accepted(
    count: int, *, bad: bool = True, nccl: bool = True, per_node: int = 8, pairs: bool = False
) -> dict[str, Any]:
    """Return an acceptance; if bad, a node with a slow rail is also a straggler."""
    fleet = names(count)
    rounds = tuple(((a, b),) for a in range(count) for b in range(a + 1, count) if pairs or a == 0)
    sizes = tuple(8 << step for step in range(0, 31, 1 if count < 100 else 3))
    more: dict[str, Any] = {"sizes": sizes, "rounds": rounds, "nodes": fleet}
    if nccl:
        addresses = accept_runs.job(count, 1, nodes=fleet).planes[0].addresses
        plane = JobPlane("all rails", None, {}, addresses)
        more |= {"planes": (plane,), "backend": "nccl", "per_node": per_node}
    made = accept_runs.job(count, 4, **more)
    ran = accept_runs.healthy(made)
    odd = fleet[count // 2]
    _numbers(ran, odd if bad else "", nccl)
    result = GateResult(fleet, "nccl" if nccl else "gloo", ran=ran)
    result.rails = [
        RailTraffic(node, rail, {"port.port_xmit_data": _sent(node, rail, odd if bad else "")})
        for node in fleet
        for rail in range(8 if nccl else 4)
    ]
    if count <= 64:
        result.samples = _samples(fleet, 8 if nccl else 4, odd if bad else "")
    if nccl:
        fabric = Fabric(nodes=count, gpus_per_node=8, rails=8, link_gbps=400)
        result.judgement = floor.judge(fabric, floor.derive(fabric), 287.0 if bad else 361.0)
    else:
        result.notes.append(GLOO_NOTE)
    if bad:
        result.findings += [
            Finding(
                "sent 11.2 GB, 21 % of the mean of its node's rails, expected at least 70 %",
                f"On {odd}, check NCCL_IB_HCA and the rail's PCIe link (lspci -vv)",
                odd,
                3,
            ),
            Finding(
                "its counters after the run: no answer",
                "Check whether it is up",
                fleet[0],
                proven=False,
            ),
        ]
        if result.judgement:
            causes = "; ".join(cause.cause for cause in result.judgement.likely_causes)
            result.findings.append(Finding(result.judgement.sentence, f"Likely causes: {causes}"))
    head = Head("accept", SITE, "gpu*" if count > 4 else None, STARTED)
    return plain(accept_run.document(head, STARTED + timedelta(seconds=212), result))


def _numbers(ran, odd: str, nccl: bool) -> None:
    """Give the events the shape of real numbers: latency at first, then bandwidth."""
    wobble = 0
    for event in ran.events:
        wobble = (wobble * 1103515245 + 12345) % (1 << 31)
        noise = wobble / (1 << 31)
        node = ran.job.node_of(event["rank"])
        if event["event"] == "row":
            rate = (365e3 if nccl else 1.4e3) * (0.78 if odd else 1.0)
            factor = 2 * (ran.job.world - 1) / ran.job.world
            median = (25 if nccl else 180) + event["bytes"] * factor / rate * (1 + 0.03 * noise)
            event.update(median_us=median, p99_us=median * 1.3, min_us=median * 0.95)
        elif event["event"] == "waits":
            base = 40 if node != odd else 0
            own = 900 if odd and node != odd else 0
            event["us"] = [base + own + 20 * ((noise * (i + 3)) % 1) for i in range(9)]
        elif event["event"] == "pair":
            slow = odd and odd in (node, ran.job.node_of(event["to"]))
            event.update(gb_s=(9.0 if slow else 44.0) * (1 - 0.08 * noise), us=4 + noise)


def _samples(fleet: tuple[str, ...], rails: int, odd: str) -> FleetSamples:
    """Return a sweep with its pauses; the odd node's rail 3 loses its link for a while."""
    sizes = [0.0] * 5 + [45.0] * 40 + [0.0] * 6 + [38.0] * 30 + [0.0] * 4 + [12.0] * 20 + [0.0] * 5
    files = {}
    for number, node in enumerate(fleet):
        factor = 1 - number % 9 / 60
        rates = [
            [
                factor * rate * (0.96 + 0.04 * math.sin(place * (rail + len(node) + 1)))
                for place, rate in enumerate(sizes)
            ]
            for rail in range(rails)
        ]
        downs = [0] * len(sizes)
        if node == odd:
            rates[3][20:34] = [0.0] * 14
            downs[20:31] = [1] * 11
        cnps = [round(rate) for rate in rates[0]]
        columns = {"3/down": downs, "0/hw_counters.np_cnp_sent": cnps}
        files[node] = made_samples.pack(made_samples.rails(*rates, **columns))
    return collect_samples(files, dict.fromkeys(files, rails), together=True)


def _sent(node: str, rail: int, odd: str) -> int:
    spread = (int(node[3:]) * 37 + rail * 61) % 100 / 2500
    return int((13e9 / 4) * (0.21 if (node, rail) == (odd, 3) else 1 - spread))
