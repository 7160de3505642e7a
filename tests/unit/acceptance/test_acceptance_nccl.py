"""What a run over NCCL must prove beside its numbers, on rows and logs as they come from nodes."""

import json

import pytest
from tests.tables import cases
from tests.unit.helpers.accept_runs import change, healthy, job
from tests.unit.helpers.nccl_runs import packed
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.acceptance.evidence import floor as fleet_floor
from rdmaprov.acceptance.evidence import judge as evidence
from rdmaprov.acceptance.evidence.judge import judge_tuner
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.preflight.reach import Rendezvous
from rdmaprov.acceptance.ranks import nccl_logs as node_logs
from rdmaprov.acceptance.ranks.nccl_logs import read_run
from rdmaprov.acceptance.ranks.plan import JobPlane
from rdmaprov.acceptance.ranks.run import NodeRun
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stages import fleet as stages_fleet
from rdmaprov.inventory import load_site
from rdmaprov.nccl_log.events import Hint
from rdmaprov.nccl_log.line import parse_message

SOCKET = cases(__file__, "socket")
TOP = 8 << 30


@pytest.fixture
def site(tmp_path):
    nodes = load_site(write(tmp_path / "site", GOOD)).nodes
    facts = {
        node.name: {
            "hostname": f"{node.name}.example",
            "gpus": {"gpus": [{}] * 8},
            "rails": [{"rdma": "mlx5_0"}, {"rdma": "mlx5_1"}],
        }
        for node in nodes
    }
    return GateSite(nodes, facts, "nccl", Rendezvous("192.0.2.1", {}))


def ran(busbw_gb_s, size=TOP):
    run = healthy(job(2, planes=(JobPlane("all rails"),), backend="nccl", sizes=(8, size)))
    # busbw = bytes / time · 2 (2 - 1) / 2
    us = size / busbw_gb_s / 1e3
    change(run, "row", lambda e: e["bytes"] == size, median_us=us, p99_us=us, min_us=us)
    return run


def test_a_fabric_that_reaches_its_floor(site):
    # 2 rails of 400 Gb/s: a ceiling of 100 GB/s.
    judgement, found = fleet_floor.judge(site, ran(92))
    assert found == []
    assert judgement is not None
    assert "measured 92" in judgement.sentence


def test_a_slow_fabric_is_told_as_a_sentence_with_likely_causes(site):
    _, (finding,) = fleet_floor.judge(site, ran(48))
    assert (
        "ceiling 100 GB/s, floor 84.9 GB/s, measured 48 GB/s (48 % of the ceiling)" in finding.what
    )
    assert finding.remedy.startswith("Likely causes: ")
    assert finding.proven


def test_small_messages_do_not_try_the_floor(site):
    _, (finding,) = fleet_floor.judge(site, ran(92, 1 << 20))
    assert (finding.proven, "the floor is not verified" in finding.what) == (False, True)


def test_sockets_are_refused_by_nccls_own_logs(site, tmp_path):
    run = ran(92)
    for rank, (name, node) in enumerate(run.nodes.items()):
        text = SOCKET.format(host=f"n{rank + 1}", rank=rank, other=1 - rank)
        node.logs = packed(text, name=f"../../nccl.{name}.10")

    def keep(name, text):
        path = tmp_path / name
        path.write_text(text)
        return path

    seen = read_run(run, keep)
    assert {path.name for path in tmp_path.iterdir()} >= {"n0.nccl.n0.10", "n1.nccl.n1.10"}
    found = list(evidence.judge_transports(site, seen))
    assert any(f.proven and "socket" in f.what.lower() for f in found), found


INIT = cases(__file__, "init")
_REST = cases(__file__, "rest")
CHANNELS = INIT + _REST


def logs(**texts):
    run = ran(92)
    run.nodes = {name: NodeRun() for name in texts}
    for rank, (name, text) in enumerate(texts.items()):
        if text:
            run.nodes[name].logs = packed(text.format(host=name, rank=rank, other=1 - rank))
    return read_run(run)


def test_a_run_that_ends_before_its_channels_accuses_no_hca(site):
    found = list(evidence.judge_transports(site, logs(n1=INIT, n2=INIT)))
    assert found
    assert not any(finding.proven for finding in found), found


def test_a_node_without_a_log_is_unknown_and_its_rails_are_not_accused(site):
    found = list(evidence.judge_transports(site, logs(n1=CHANNELS, n2="")))
    assert [f.nodes for f in found if "no log of NCCL" in f.what] == [("n2",)]
    assert not any(finding.proven for finding in found), found


def test_what_a_log_shows_is_named_with_its_node(site):
    one_rail = CHANNELS.replace("NET/IB/1", "NET/IB/0")
    found = list(evidence.judge_transports(site, logs(n1=CHANNELS, n2=one_rail)))
    (proven,) = [finding for finding in found if finding.proven]
    assert (proven.node, proven.level) == ("n2", "node")
    assert "mlx5_1" in proven.what


def test_no_log_proves_no_transport(site):
    (finding,) = evidence.judge_transports(site, logs(n1="", n2=""))
    assert not finding.proven


def test_the_logs_of_a_run_are_unpacked_once(site, monkeypatch):
    """The transports and the floor's algorithm use what was read once."""
    run = ran(92)
    opened: list[NodeRun] = []
    for rank, name in enumerate(run.nodes):
        text = CHANNELS.format(host=name, rank=rank, other=1 - rank)
        run.nodes[name].logs = packed(text, name=f"../../nccl.{name}.10")
    unpack = node_logs.log_files

    def counted(node):
        opened.append(node)
        return unpack(node)

    monkeypatch.setattr(node_logs, "log_files", counted)
    result = GateResult(tuple(run.nodes), ran=run)
    stages_fleet.judge_nccl(result, site, run, lambda *_: None)
    assert result.judgement is not None
    assert len(opened) == len(run.nodes)


LOADED = cases(__file__, "loaded")
FAILED = cases(__file__, "failed")
SILENT = cases(__file__, "silent")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        *((text, "tuner") for text in LOADED.values()),
        *((text, "no_tuner") for text in FAILED.values()),
        *((text, "") for text in SILENT),
    ],
)
def test_each_version_s_words_are_understood(said, kind):
    found = parse_message(said.encode())
    assert (found.kind if isinstance(found, Hint) else "") == kind


@pytest.fixture
def judged(tmp_path):
    def judge(*said, plugin="example", hostname="{}.example"):
        files = dict(GOOD)
        extra = f"nccl_tuner_plugin: {json.dumps(plugin)}\n"
        files["group_vars/nodes.yml"] = files.get("group_vars/nodes.yml", "---\n") + extra
        nodes = load_site(write(tmp_path / "site", files)).nodes
        facts = {node.name: {"hostname": hostname.format(node.name)} for node in nodes}
        ran = healthy(job(2, planes=(JobPlane("all rails"),), backend="nccl", sizes=(8,)))
        site_names = [node.name for node in nodes]
        ran.nodes = dict(zip(site_names, ran.nodes.values(), strict=True))
        for place, (name, node) in enumerate(ran.nodes.items()):
            own = said[min(place, len(said) - 1)]
            lines = [f"{name}:10:20 [0] NCCL INFO {text}\n" for text in ("x", *own)]
            node.logs = packed("".join(lines))
        site = GateSite(nodes, facts, "nccl", Rendezvous("192.0.2.1", {}))
        return list(judge_tuner(site, read_run(ran))), site_names

    return judge


def test_a_plugin_that_was_loaded_is_no_finding(judged):
    assert judged([LOADED["2.30"]])[0] == judged([LOADED["2.21"]])[0] == []


def test_a_plugin_that_was_not_loaded_is_found_on_its_node(judged):
    [found], names = judged([LOADED["2.28"]], [FAILED["2.28"]])
    assert (found.node, found.proven) == (names[1], True)
    assert "did not load the tuner plugin example" in found.what
    assert "Could not find: example libnccl-tuner-example.so" in found.what


def test_a_log_that_does_not_say_it_is_unknown(judged):
    found, _ = judged([])
    assert [each.proven for each in found] == [False, False]


@pytest.mark.parametrize("plugin", ["", "none"])
def test_a_site_without_a_plugin_is_asked_nothing(judged, plugin):
    assert judged([FAILED["2.28"]], plugin=plugin)[0] == []
