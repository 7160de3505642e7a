"""`rdmaprov explain subnet`: what it prints, its JSON and its exit codes."""

import json
from functools import partial

import pytest
from tests.program import ended_here
from tests.unit.helpers.subnet_texts import DISCOVERY, ERRORS, MANAGERS, TABLES, Texts

from rdmaprov.exit_codes import ExitCode


@pytest.fixture
def texts(tmp_path):
    return Texts(tmp_path)


@pytest.fixture
def explain(capsys):
    return partial(ended_here, capsys, "explain", "subnet")


def test_healthy_subnet_ends_with_0(texts, explain):
    code, said, _ = explain(texts.directory)
    assert code == ExitCode.OK
    assert said.splitlines()[-1] == "healthy: 8 switches, 32 HCAs, 64 links, 0 credit loops"
    code, said, _ = explain(texts.directory, "--json")
    document = json.loads(said)
    assert code == ExitCode.OK
    assert (document["switches"], document["hcas"], document["links"]) == (8, 32, 64)
    assert document["credit_loops"] == document["problems"] == []
    assert document["lost_share"] == 0
    assert document["patterns"].keys() == {"ring", "ringx", "tree", "all_to_all"}
    ringx = document["patterns"]["ringx"]
    assert (ringx["max_over_mean"], ringx["excess"], ringx["idle_links"]) == (1, 1, 0)
    assert ringx["busiest"]["to"].startswith("spine-")


def test_wrong_subnet_ends_with_1_and_its_problem(texts, explain):
    texts.gone("node003 mlx5_1")
    code, said, _ = explain(texts.directory)
    assert code == ExitCode.FAILED
    assert said.startswith("wrong: missing: node003 mlx5_1: mlx5_1 is missing")
    document = json.loads(explain(texts.directory, "--json")[1])
    assert document["verdict"] == "wrong"
    (problem,) = document["problems"]
    assert (problem["level"], problem["name"]) == ("wrong", "node003 mlx5_1")


def test_missing_tables_end_with_4(texts, explain):
    (texts.directory / TABLES).unlink()
    code, said, _ = explain(texts.directory)
    assert code == ExitCode.UNKNOWN
    assert said.startswith("unknown: not verified: dump_fts.txt is missing\n")
    document = json.loads(explain(texts.directory, "--json")[1])
    assert (document["patterns"], document["credit_loops"]) == ({}, None)


def test_a_fault_counts_more_than_what_is_unknown(texts, explain):
    (texts.directory / ERRORS).unlink()
    texts.gone("node003 mlx5_1")
    assert explain(texts.directory)[0] == ExitCode.FAILED


def test_names_from_a_fabric_reach_no_terminal_raw(texts, explain):
    texts.edit(DISCOVERY, "leaf-p1-r0", "leaf\x1b[31m\u202e")
    texts.edit(DISCOVERY, r"4x HDR( - .*'node003 mlx5_0' - )", r"1x HDR\1")
    texts.edit(DISCOVERY, r"4x HDR( - .* - 'node003 mlx5_0')", r"1x HDR\1")
    for words in ((), ("--json",)):
        said = explain(texts.directory, *words)[1]
        assert "\x1b" not in said
        assert "\u202e" not in said
        assert "leaf" in said


def test_unreadable_file_is_not_verified(texts, explain):
    path = texts.directory / TABLES
    path.unlink()
    path.mkdir()
    code, said, _ = explain(texts.directory)
    assert code == ExitCode.UNKNOWN
    assert "dump_fts.txt is no file" in said


SM = "sminfo: sm lid {} sm guid {:#x}, activity count 9 priority {} state {} SMINFO_{}\n"
MASTER = SM.format(1, 0x100001, 14, 3, "MASTER")
STANDBY = SM.format(5, 0x100003, 13, 2, "STANDBY")


def managers(texts, explain, text, known=""):
    texts.write(MANAGERS, text)
    texts.write("saquery-smir.txt", "".join(f"\t\tLID...................{e}\n" for e in known))
    if not known:
        (texts.directory / "saquery-smir.txt").unlink()
    code, said, _ = explain(texts.directory)
    (line,) = [each for each in said.splitlines() if each.startswith("managers: ")]
    return code, line, [each for each in said.splitlines() if each.startswith("unknown: ")]


@pytest.mark.parametrize(
    ("text", "known", "line"),
    [
        (MASTER + STANDBY, "15", "standby node001 mlx5_1 (LID 5, priority 13)"),
        (MASTER, "1", "no standby manager"),
        (MASTER, "", "standby managers unknown (saquery SMIR)"),
    ],
)
def test_master_and_those_that_stand_by_are_named(texts, explain, text, known, line):
    master = "managers: master node001 mlx5_0 (LID 1, priority 14), "
    assert managers(texts, explain, text, known) == (ExitCode.OK, master + line, [])


def test_manager_that_is_known_and_silent_is_not_verified(texts, explain):
    code, _, unknown = managers(texts, explain, MASTER, "159")
    assert (code, len(unknown)) == (ExitCode.UNKNOWN, 3)
    assert "the master knows a manager at LID 5, which sminfo.txt does not list" in unknown[0]


@pytest.mark.parametrize(
    ("lid", "where"), [(7811, ""), (1, "; LID 1 is that of node001 mlx5_0"), (0, "")]
)
def test_manager_on_no_port_of_the_fabric_is_not_verified(texts, explain, lid, where):
    code, line, unknown = managers(texts, explain, SM.format(lid, 0x2A1, 15, 3, "MASTER") + STANDBY)
    assert (code, len(unknown)) == (ExitCode.UNKNOWN, 2)
    assert f"(GUID 0x00000000000002a1, MASTER) is on no port of this fabric{where}:" in unknown[0]
    assert "master 0x00000000000002a1 (LID" in line


def test_manager_on_a_switch_may_have_a_guid_of_its_own(texts, explain):
    assert managers(texts, explain, SM.format(2, 0x2A1, 15, 3, "MASTER"))[0] == ExitCode.OK


def test_cut_discovery_says_nothing_of_where_managers_are(texts, explain):
    texts.without(DISCOVERY, "0x0000000000100001 4x")
    code, _, unknown = managers(texts, explain, MASTER)
    assert code == ExitCode.UNKNOWN
    assert not [each for each in unknown if "on no port" in each]


def test_managers_of_ibdiagnet_stand_for_those_of_sminfo(texts, explain):
    (texts.directory / MANAGERS).unlink()
    report = "  SM - master\n    Port=1 lid=0x0001 guid=0x100001 dev=4129 priority:14\n"
    texts.write("ibdiagnet2.sm", report)
    code, said, _ = explain(texts.directory)
    assert (code, said.splitlines()[0]) == (
        ExitCode.OK,
        "managers: master node001 mlx5_0 (LID 1, priority 14), no standby manager",
    )
    data = json.loads(explain(texts.directory, "--json")[1])["managers"]
    where = {"name": "node001 mlx5_0", "lid": 1, "guid": "0x0000000000100001"}
    assert data == [{**where, "state": "MASTER", "priority": 14}]


def test_log_of_ibdiagnet_alone_is_not_verified_and_says_what_it_calls_an_error(tmp_path, explain):
    log = '-I- Discovery summary:\n-W- x\n-E- S1/N1/P1 - "symbol_error_counter" increased\n-E- y\n'
    (tmp_path / "ibdiagnet2.log").write_text(log)
    code, said, _ = explain(tmp_path)
    assert code == ExitCode.UNKNOWN
    assert "unknown: not verified: ibnetdiscover-p.txt is missing\n" in said
    assert (
        "ibdiagnet2.log has 2 errors by thresholds of ibdiagnet's own, the first: -E- S1/N1/P1"
        in said
    )
