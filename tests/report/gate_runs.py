"""Acceptances of fleets of any size, as the gate's own code writes them."""

import math
from datetime import timedelta
from typing import Any

from tests.report.runs import SITE, STARTED, names, plain
from tests.unit.helpers import accept_runs, made_samples

from rdmaprov.acceptance.ranks.plan import JobPlane
from rdmaprov.acceptance.result import GLOO_NOTE, GateResult
from rdmaprov.acceptance.samples.fleet import FleetSamples, collect_samples
from rdmaprov.bandwidth import floor
from rdmaprov.bandwidth.fabric import Fabric
from rdmaprov.cli import accept_run
from rdmaprov.finding.finding import Finding
from rdmaprov.rail_counters.traffic import RailTraffic
from rdmaprov.runs.envelope import Head


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
    ran = accept_runs.healthy(accept_runs.job(count, 4, **more))
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
                "traffic.share",
                "sent 11.2 GB, 21 % of the mean of its node's rails, expected at least 70 %",
                f"On {odd}, check NCCL_IB_HCA and the rail's PCIe link (lspci -vv)",
                odd,
                3,
            ),
            Finding(
                "node.counters",
                "its counters after the run: no answer",
                "Check whether it is up",
                fleet[0],
                proven=False,
            ),
        ]
        if result.judgement:
            causes = "; ".join(cause.cause for cause in result.judgement.likely_causes)
            result.findings.append(
                Finding("bandwidth.floor", result.judgement.sentence, f"Likely causes: {causes}")
            )
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
        columns = {"3/down": downs, "0/hw.np_cnp_sent": [round(rate) for rate in rates[0]]}
        files[node] = made_samples.pack(made_samples.rails(*rates, **columns))
    return collect_samples(files, dict.fromkeys(files, rails), together=True)


def _sent(node: str, rail: int, odd: str) -> int:
    spread = (int(node[3:]) * 37 + rail * 61) % 100 / 2500
    return int((13e9 / 4) * (0.21 if (node, rail) == (odd, 3) else 1 - spread))
