"""The gate's parts that ask nothing of the world: sizes, plans, state, findings, results."""

import base64
import io
import json
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from tests.tables import cases
from tests.unit.helpers.accept_runs import broken, healthy
from tests.unit.helpers.live_ranks import made_site
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.acceptance import summary
from rdmaprov.acceptance.ranks import request
from rdmaprov.acceptance.ranks import request as job_request
from rdmaprov.acceptance.ranks.jobs import default_sizes, fleet_job
from rdmaprov.acceptance.remedies import no_answer
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stages.fleet import measured_with
from rdmaprov.bandwidth import rates
from rdmaprov.cli import run
from rdmaprov.cli.accept import accept
from rdmaprov.cli.accept_run import document
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import LEVELS, Finding
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.report import of_accept
from rdmaprov.runs.envelope import Head

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "results.schema.json").read_text())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("8:64", (8, 16, 32, 64)),
        ("1M", (1 << 20,)),
        ("1K:3K", (1024, 2048)),
        ("1MiB:2MB", (1 << 20, 2 << 20)),
        ("4G:8G", (4 << 30, 8 << 30)),
        ("1gi:2 gb", (1 << 30, 2 << 30)),
        ("0.5G", (1 << 29,)),
    ],
)
def test_sizes(text, wanted):
    assert rates.parse_sizes(text) == wanted


@pytest.mark.parametrize(
    "text", ["4", "1M:8", "x", "2T", "1.3", "1M:", "-8", "9:32", "8G:1M", "8:8:8"]
)
def test_sizes_that_are_none(text):
    with pytest.raises(UsageError, match="--sizes"):
        rates.parse_sizes(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(8, "8 B"), (1024, "1 KiB"), (1536, "1536 B"), (16 << 20, "16 MiB"), (8 << 30, "8 GiB")],
)
def test_a_size_is_shown(size, text):
    assert rates.format_size(size) == text


def test_the_largest_size_fits_into_memory():
    assert default_sizes("nccl", 80 << 30)[-1] == 8 << 30
    assert default_sizes("nccl", 16 << 30)[-1] == 4 << 30
    assert default_sizes("gloo", 0)[-1] == 16 << 20


@pytest.fixture
def site(tmp_path):
    return made_site(tmp_path, 8, "gloo")


def test_ranks_are_in_the_sites_order(site):
    made = fleet_job(site, (8,), pairs=False)
    for number, name in enumerate(made.nodes):
        files = job_request.start_request(made, name, 60)["files"]
        ranks = json.loads(base64.b64decode(files["plan.json"]))["ranks"]
        own = made.ranks_of(name)
        assert (ranks["first"], ranks["count"]) == (own.start, len(own))
        assert own.start == number * len(own)
        assert made.node_of(number) == name == f"n{number + 1}"
    sweep, *others = [task for task in made.tasks if task.plane == "rail 0"]
    pairs = [task for task in others if task.stage == "pairs"]
    assert sweep.groups == (tuple(range(8)),)
    # Disjoint, and each node meets several others.
    assert [sorted(sum(task.groups, ())) for task in pairs] == [list(range(8))] * 4
    assert len({frozenset(pair) for task in pairs for pair in task.groups}) == 16


def test_what_a_fleet_was_measured_with_is_said(site):
    facts = {name: {**of, "torch": {"torch": "2.13.0"}} for name, of in site.facts.items()}
    facts["n1"]["torch"]["nccl"] = "2.29.7"
    values = {"torch_runtime_launcher": "slurm", "torch_runtime_launch_image": "pytorch:25.09"}
    first = replace(site.nodes[0], values={**site.nodes[0].values, **values})
    assert measured_with(replace(site, nodes=(first, *site.nodes[1:]), facts=facts)).startswith(
        "measured with torch 2.13.0, NCCL 2.29.7, in pytorch:25.09; torch 2.13.0, NCCL none, in no "
        "container of Slurm's, and /etc/nccl.conf there: "
    )


def test_gloo_proves_each_rail_by_its_own_device(site):
    planes = fleet_job(site, (8,), pairs=False).planes
    assert [(p.rail, p.netdevs["n3"], p.addresses["n3"]) for p in planes] == [
        (0, "ens1", "198.18.0.3"),
        (1, "ens2", "198.18.1.3"),
    ]


def test_pairs_meet_once_each(site):
    tasks = fleet_job(site, (8,), pairs=True).tasks
    rounds = [task.groups for task in tasks if task.stage == "pairs" and task.plane == "rail 0"]
    assert len(rounds) == 7
    assert len({frozenset(pair) for each in rounds for pair in each}) == 28


def test_nccl_runs_a_rank_for_each_gpu_over_all_rails(site):
    made = fleet_job(replace(site, backend="nccl"), (8,), pairs=False)
    assert (made.per_node, made.world, made.node_of(8)) == (8, 64, "n2")
    request = job_request.start_request(made, "n2", 60)
    assert request["environment"]["NCCL_DEBUG_FILE"] == "{directory}/nccl.%h.%p"
    assert "NCCL_IB_HCA" not in request["environment"]


def test_the_agent_is_one_file_and_always_the_same():
    assert request.agent_archive() == request.agent_archive()
    with zipfile.ZipFile(io.BytesIO(request.agent_archive())) as archive:
        names = set(archive.namelist())
        assert {"__main__.py", "agent/main.py", "agent/values.py"} <= names
        for name in names:
            compile(archive.read(name), name, "exec")
            assert b"import rdmaprov" not in archive.read(name)


def as_document(result):
    now = datetime.now(UTC)
    head = Head("accept", Path("inventory/x"), None, now)
    return json.loads(json.dumps(document(head, now, result)))


def results():
    good = GateResult(("n0", "n1", "n2", "n3"), "gloo", ran=healthy())
    slow = Finding("rail.slow", "x", "y", "n1", 0)
    unproven = Finding("rail.slow", "x", "y", proven=False)
    yield "connected", ExitCode.OK, good
    yield "refused", ExitCode.FAILED, replace(good, findings=[slow], ran=broken())
    yield "unknown", ExitCode.UNKNOWN, replace(good, findings=[unproven])
    yield "unknown", ExitCode.UNKNOWN, GateResult(good.nodes)
    yield "interrupted", ExitCode.INTERRUPTED, GateResult(good.nodes, interrupted=True)


@pytest.mark.parametrize(("verdict", "code", "result"), list(results()))
def test_results_are_as_the_schema_says(verdict, code, result):
    found = as_document(result)
    jsonschema.validate(found, SCHEMA)
    assert (result.verdict, result.exit_code(), found["exit_code"]) == (verdict, code, code)
    text = "\n".join(line.text for line in summary.summary_lines(result))
    words = {"connected": "4 nodes: connectivity and sums over gloo passed"}
    said = words.get(verdict, f"4 nodes {verdict}")
    assert said in text or f"neither accepted nor refused: {verdict}" in text


def test_verdict_names_the_nodes_that_were_unreachable_and_why():
    why = "ssh: connection refused"
    lost = [no_answer(NodeUnreachable(f"{n}: {why}", f"Try: ssh {n}"), n) for n in ("n1", "n2")]
    slow = Finding("rail.slow", "x", "y", "n0", 0)
    for found, verdict in (
        (lost, "neither accepted nor refused: unknown"),
        ([slow, *lost], "refused"),
    ):
        *_, last = summary.summary_lines(GateResult(("n0", "n1", "n2"), findings=found))
        assert last.text == f"3 nodes {verdict}; unreachable: n1, n2 (ssh: connection refused)"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"node": "n1", "rail": 3}, "n1 rail 3"),
        ({"nodes": ("n1", "n2"), "rail": 3}, "n1, n2 rail 3"),
        (
            {"nodes": tuple(f"n{each}" for each in range(16)), "level": "leaf"},
            "n0, n1, n2, n3 and 12 more",
        ),
    ],
    ids=["rail", "path", "leaf"],
)
def test_a_finding_is_one_line_that_names_its_place(place, said):
    assert Finding("rail.slow", "a\nb\x1b[31m", "do", **place).text == rf"{said}: a\nb\x1b[31m. do"


def test_a_node_alone_and_nodes_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = dict(GOOD)
    files["group_vars/nodes.yml"] = "ansible_host: 127.0.0.1\nansible_port: 9\n"
    write(tmp_path / "site", files)
    assert run(["accept", "site", "--limit", "n1"]) == ExitCode.USAGE
    done = CliRunner().invoke(
        accept, ["site", "--ignore-validate", "--json", "out.json"], standalone_mode=False
    )
    assert done.return_value == ExitCode.UNKNOWN, done.output
    found = json.loads(Path("out.json").read_text())
    jsonschema.validate(found, SCHEMA)
    assert {(f["node"], f["proven"]) for f in found["findings"]} == {("n1", False), ("n2", False)}
    assert "connection refused" in done.output


@pytest.mark.parametrize(("said", "level", "nodes"), cases(__file__, "levels"))
def test_a_finding_knows_its_level_and_its_nodes(said, level, nodes):
    said = {key: tuple(v) if isinstance(v, list) else v for key, v in said.items()}
    found = Finding("rail.slow", "what", "remedy", **said)
    assert (found.level, found.nodes) == (level, tuple(nodes))
    assert level in LEVELS
    assert found.as_data()["level"] == level
    assert found.as_data()["nodes"] == nodes


def test_both_ends_of_a_path_have_its_finding():
    path = Finding("rdma.failed", "w", "r", nodes=("n0", "n2"))
    result = GateResult(("n0", "n1", "n2"), findings=[path])
    assert [node["findings"] for node in result.nodes_as_data().values()] == [1, 0, 1]
    assert [each.node for each in of_accept._messages(result.as_data())] == ["n0", "n2"]
