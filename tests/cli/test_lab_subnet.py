"""`rdmaprov lab subnet`: real opensm and infiniband-diags on ibsim, judged by `explain subnet`."""

import json

import pytest
from tests.cli.sim_subnet import BY_SITE_ALONE, NAMED, NEEDS, LabSubnetVerb

from rdmaprov.cli import run
from rdmaprov.exit_codes import ExitCode
from rdmaprov.lab.ib_faults import FAULTS
from rdmaprov.lab.ib_topology import Topology

SEEN = [fault for fault in FAULTS if fault not in BY_SITE_ALONE]


@pytest.fixture
def lab(tmp_path, capfd):
    verb = LabSubnetVerb(tmp_path / "lab", capfd)
    yield verb
    verb("down")


def judged(lab, tmp_path, capfd, *options):
    """Return the judgement of a subnet that was made with these options."""
    code, _, error = lab("up", *options)
    assert code == ExitCode.OK, error
    texts = tmp_path / "texts"
    assert lab("save", str(texts))[0] == ExitCode.OK
    run(["explain", "subnet", str(texts), "--json"])
    return json.loads(capfd.readouterr().out)


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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["up", "--nodes", "0"], "--nodes must be from 1 to 1024, not 0"),
        (["up", "--rails", "9"], "--rails must be from 1 to 8, not 9"),
        (["up", "--nodes", "1024", "--cables", "8"], "ports of a spine must be from"),
        (["up", "--nodes", "1024", "--spines", "4", "--cores", "2"], "ports of a core must be"),
        (["up", "--fault", "gremlins"], "there is no fault gremlins"),
        (["up", "--rails", "1", "--fault", "errors"], "this fabric is too small for faults"),
        (["up", "--cores", "65"], "--cores must be from 0 to 64, not 65"),
        (["up", "--planes", "5"], "--planes must be from 1 to 4, not 5"),
        (["up", "--cores", "2", "--fault", "errors"], "faults need two levels and one plane"),
        (["up", "--engine", "magic"], "'magic' is not one of"),
        (["run", "--", "sminfo"], "there is no subnet"),
        (["save", "texts"], "there is no subnet"),
        (["site", "texts"], "there is no subnet"),
    ],
)
def test_wrong_call_is_refused_and_changes_nothing(lab, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    code, said, error = lab(*words)
    assert (code, said) == (ExitCode.USAGE, "")
    assert says in error.splitlines()[0]
    assert len(error.splitlines()) == 2
    assert not (tmp_path / "texts").exists()


def test_many_spines_without_cores_are_no_ports_of_a_core():
    Topology(nodes=512, rails=8, nodes_per_leaf=32, spines=32, cables=1).check()


def test_each_fault_is_listed(lab):
    code, said, _ = lab("faults")
    assert code == ExitCode.OK
    assert [line.split()[0] for line in said.splitlines()] == list(FAULTS)


def test_nothing_is_there_to_delete(lab):
    assert lab("down")[2] == "there is no subnet\n"
