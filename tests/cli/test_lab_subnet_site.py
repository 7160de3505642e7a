"""`rdmaprov subnet` on ibsim: real opensm and infiniband-diags, judged by the plan of the site."""

import json
import sys

import pytest
from tests.cli.sim_subnet import NAMED, NEEDS, LabSubnetVerb

from rdmaprov.exit_codes import ExitCode
from rdmaprov.lab.ib_faults import FAULTS

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


@pytest.fixture
def lab(tmp_path, capfd):
    verb = LabSubnetVerb(tmp_path / "lab", capfd)
    yield verb
    verb("down")


def by_plan(lab, tmp_path, *options, words=()):
    """Return what `rdmaprov subnet` finds in a subnet, with its site, and its exit code."""
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
