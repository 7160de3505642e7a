"""Subnets on ibsim: real opensm and infiniband-diags, judged without a site and by its plan."""

import json
import sys
from functools import partial

import pytest
from tests.program import ended_here

from rdmaprov.exit_codes import ExitCode
from rdmaprov.lab import tools
from rdmaprov.lab.ib_faults import FAULTS
from rdmaprov.lab.ib_subnet import TOOLS
from rdmaprov.lab.ib_topology import Topology

NEEDS = pytest.mark.skipif(
    bool(tools.missing(TOOLS)), reason=f"not installed: {', '.join(tools.missing(TOOLS))}"
)
# For each fault what `explain subnet` must name: kinds and nodes of its problems.
NAMED = {
    "link-down": {("missing", "leaf-p1-r0")},
    "hca-down": {("missing", "node003 mlx5_1")},
    "node-down": {("missing", "node003")},
    "spine-down": {("missing", "spine-2")},
    "swapped-rails": {("cabling", "node003 mlx5_0"), ("cabling", "node003 mlx5_1")},
    "wrong-leaf": {("cabling", "node003 mlx5_0"), ("cabling", "node011 mlx5_0")},
    "swapped-trunks": {("cabling", "leaf-p1-r0"), ("cabling", "leaf-p1-r1")},
    "slow-link": {("rate", "spine-1")},
    "narrow-hca": {("rate", "leaf-p1-r1")},
    "errors": {("errors", "leaf-p1-r0")},
    "uneven-routes": {("balance", "spine-1")},
    "credit-loop": {("credit loop", "leaf-p1-r1")},
    "manager-dead": {("manager", "subnet manager")},
}
# `rdmaprov subnet SITE` alone sees them: no text that `explain subnet` reads has partition tables,
# and whose the managers are a site alone says.
BY_SITE_ALONE = ("pkey-missing", "second-manager")
# For each fault what `rdmaprov subnet` must name: kind, and node with rails, or switch.
BY_PLAN = {
    **{fault: NAMED[fault] for fault in ("link-down", "spine-down", "swapped-trunks")},
    **{fault: NAMED[fault] for fault in ("slow-link", "uneven-routes", "credit-loop")},
    "hca-down": {("missing", "node003", 1)},
    "node-down": {("missing", "node003", 0, 1)},
    "swapped-rails": {("cabling", "node003", 0), ("cabling", "node003", 1)},
    "wrong-leaf": {("cabling", "node003", 0), ("cabling", "node011", 0)},
    "narrow-hca": {("rate", "node003", 1)},
    "errors": {("errors", "node003", 0)},
    "pkey-missing": {("partition", "node003", 1)},
    "second-manager": {("manager", "node002 mlx5_0")},
    "manager-dead": NAMED["manager-dead"],
}
SEEN = [fault for fault in FAULTS if fault not in BY_SITE_ALONE]


@pytest.fixture
def lab(tmp_path, capfd):
    call = partial(ended_here, capfd, "lab", "--dir", tmp_path / "lab", "subnet")
    yield call
    call("down")


def judged(lab, tmp_path, capfd, *options):
    code, _, error = lab("up", *options)
    assert code == ExitCode.OK, error
    texts = tmp_path / "texts"
    assert lab("save", str(texts))[0] == ExitCode.OK
    return json.loads(ended_here(capfd, "explain", "subnet", texts, "--json")[1])


def named(document):
    return {
        (each["kind"], each["name"]) for each in document["problems"] if each["level"] == "wrong"
    }


@NEEDS
def test_healthy_subnet_is_healthy(lab, tmp_path, capfd):
    document = judged(lab, tmp_path, capfd)
    assert document["problems"] == []
    assert (document["verdict"], document["hcas"], document["switches"]) == ("healthy", 64, 12)
    assert document["patterns"]["ringx"]["excess"] == 1


@NEEDS
@pytest.mark.parametrize("fault", SEEN)
def test_fault_is_named(lab, tmp_path, capfd, fault):
    document = judged(lab, tmp_path, capfd, "--rails", "2", "--fault", fault)
    assert document["verdict"] == "wrong"
    assert named(document) == NAMED[fault]


@NEEDS
@pytest.mark.long
@pytest.mark.parametrize("fault", SEEN)
def test_fault_is_named_among_128_nodes(lab, tmp_path, capfd, fault):
    size = ("--nodes", "128", "--nodes-per-leaf", "16", "--spines", "8")
    document = judged(lab, tmp_path, capfd, *size, "--fault", fault)
    pods = {name.replace("node011", "node019") for _, name in NAMED[fault]}
    assert {name for _, name in named(document)} == pods


@NEEDS
@pytest.mark.long
@pytest.mark.parametrize("engine", ["ftree", "updn", "minhop"])
@pytest.mark.parametrize(
    "options",
    [
        *("--nodes 8 --rails 1 --spines 0", "--spines 3", "--spines 5 --cables 1", "--cables 1"),
        *("--nodes 13", "--nodes 128 --nodes-per-leaf 16 --spines 8"),
        "--nodes 32 --rails 2 --cores 4",
    ],
)
def test_healthy_shapes_have_no_problem(lab, tmp_path, capfd, engine, options):
    assert judged(lab, tmp_path, capfd, "--engine", engine, *options.split())["problems"] == []


@NEEDS
def test_repaired_subnet_is_healthy_again(lab, tmp_path, capfd):
    lab("up", "--rails", "2", "--fault", "uneven-routes")
    document = judged(lab, tmp_path, capfd, "--rails", "2")
    assert (document["problems"], document["verdict"]) == ([], "healthy")


@NEEDS
def test_program_beside_the_subnet_keeps_its_exit_code_and_place(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lab("up", "--rails", "2")
    code, said, _ = lab("run", "--", "sh", "-c", "pwd; sminfo -C mlx5_1 >/dev/null && exit 7")
    assert (code, said) == (7, f"{tmp_path}\n")
    assert not list(tmp_path.glob("sys-*"))


@NEEDS
def test_tool_runs_as_on_the_first_node(lab):
    lab("up", "--rails", "1")
    code, said, _ = lab("run", "--", "sminfo")
    assert code == ExitCode.OK
    assert "SMINFO_MASTER" in said


@NEEDS
def test_texts_of_two_subnets_are_not_mixed(lab, tmp_path):
    lab("up", "--rails", "1")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/old.txt").write_text("")
    code, _, error = lab("save", str(tmp_path / "texts"))
    assert code == ExitCode.USAGE
    assert "is there already" in error


def test_many_spines_without_cores_are_no_ports_of_a_core():
    Topology(nodes=512, rails=8, nodes_per_leaf=32, spines=32, cables=1).check()


def test_each_fault_is_listed(lab):
    code, said, _ = lab("faults")
    assert code == ExitCode.OK
    assert [line.split()[0] for line in said.splitlines()] == list(FAULTS)


def test_nothing_is_there_to_delete(lab):
    assert lab("down")[2] == "there is no subnet\n"


def by_plan(lab, tmp_path, *options, words=()):
    code, _, error = lab("up", "--rails", "2", *options)
    assert code == ExitCode.OK, error
    assert lab("site", str(tmp_path / "site"))[0] == ExitCode.OK
    verb = (sys.executable, "-m", "rdmaprov", "subnet", str(tmp_path / "site"), "--here")
    code, said, error = lab("run", "--", *verb, "--json", "-", *words)
    assert said, error
    return code, json.loads(said)


@NEEDS
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(each, marks=[] if each == "uneven-routes" else pytest.mark.long)
        for each in FAULTS
    ],
)
def test_fault_is_named_by_node_and_rail_of_the_site(lab, tmp_path, monkeypatch, fault):
    monkeypatch.chdir(tmp_path)
    code, data = by_plan(lab, tmp_path, "--fault", fault)
    found = {
        (each["kind"], each["node"] or each["name"], *each["rails"])
        for each in data["problems"]
        if each["level"] == "wrong"
    }
    assert code == ExitCode.FAILED
    assert found == BY_PLAN[fault]
    (subnet,) = data["subnets"]
    assert (subnet["lost_share"] > 0.5) == (fault == "uneven-routes")


@NEEDS
def test_healthy_subnet_is_as_its_site_plans_it(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, data = by_plan(lab, tmp_path)
    assert (code, data["problems"]) == (ExitCode.OK, [])
    assert {node["state"] for node in data["nodes"].values()} == {"passed"}
    assert len(data["nodes"]) == 16


@NEEDS
@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "devices", "subnets"),
    [("--nodes 32 --cores 4", "", 1), ("--planes 2", "--device mlx5_0,mlx5_1", 2)],
)
def test_healthy_shapes_are_as_their_sites_plan_them(
    lab, tmp_path, monkeypatch, options, devices, subnets
):
    monkeypatch.chdir(tmp_path)
    code, data = by_plan(lab, tmp_path, *options.split(), words=devices.split())
    assert (code, data["problems"]) == (ExitCode.OK, [])
    assert len(data["subnets"]) == subnets


@NEEDS
@pytest.mark.long
def test_plane_that_is_not_read_is_not_verified(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, data = by_plan(lab, tmp_path, "--planes", "2")
    assert code == ExitCode.UNKNOWN
    assert [each["name"] for each in data["problems"]] == ["rail 1", "fabric_spines"]
