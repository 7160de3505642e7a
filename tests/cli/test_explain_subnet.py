"""`rdmaprov explain subnet`: what it prints, its JSON and its exit codes."""

from __future__ import annotations

import json

import pytest
from tests.unit.helpers.subnet_texts import DISCOVERY, ERRORS, TABLES, Texts

from rdmaprov import cli
from rdmaprov.exit_codes import ExitCode


@pytest.fixture
def texts(tmp_path):
    return Texts(tmp_path)


@pytest.fixture
def explain(capsys):
    def run(*words):
        code = cli.run(["explain", "subnet", *map(str, words)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_healthy_subnet_ends_with_0(texts, explain):
    code, said, _ = explain(texts.directory)
    assert code == ExitCode.OK
    assert said.splitlines()[-1] == "healthy: 8 switches, 32 HCAs, 64 links, 0 credit loops"


def test_json_of_a_healthy_subnet(texts, explain):
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


@pytest.mark.parametrize("name", ["absent", "file", "empty"])
def test_directory_without_texts_ends_with_2(tmp_path, explain, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    code, said, error = explain(tmp_path / name)
    assert (code, said) == (ExitCode.USAGE, "")
    assert len(error.splitlines()) == 2


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
