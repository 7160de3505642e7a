"""Blame by NCCL's words: those of tools/nccl_wordings.yml, so that a new row is tested here."""

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.acceptance.test_acceptance_network_errors import (
    in_a_report,
    in_standard_error,
    in_the_log,
)
from tests.unit.helpers.nccl_runs import (
    GPUS,
    all_waited,
    completion,
    failed_run,
    judge,
    named,
    packed,
)
from tools.nccl_wordings import BEGIN, END, place_in_page, wordings

from rdmaprov.nccl_log.causes import find_cause
from rdmaprov.nccl_log.completion import parse_completion, statuses

PATHS = [row for row in wordings() if row["read"] in ("completion", "ibv_modify_qp")]
CONNECTS = [row for row in wordings() if row["read"] in ("connect", "closed")]
PORTS = [row for row in wordings() if row["read"] == "event-port"]
CASES = [(row, number) for row in PATHS for number in statuses()[row["read"]]]
UNKNOWN = [(row, 99 if row["read"] == "ibv_modify_qp" else 14) for row in PATHS]
GIDS = re.compile(r",? (?:local ?G(?:id|ID) |remote ?G(?:id|ID)s? ?|local GID )\{\w+\}")


def text(row, number, one, other, rail, *, is_ib=False):
    """Return a line of node `one` about its path to node `other`; InfiniBand has no GIDs."""
    line = GIDS.sub("", row["line"]) if is_ib else row["line"]
    return line.format(
        number=number,
        strerror=os.strerror(number),
        hca=f"mlx5_{rail}",
        local=f"::ffff:198.18.{rail}.{one + 1}",
        remote=f"::ffff:198.18.{rail}.{other + 1}",
        peer=f"172.16.0.{other + 1}",
    )


def blame(case, words_are, paths, nodes=8, *, is_ib=False):
    row, number = case
    ran = failed_run(nodes)
    said: dict[int, list[str]] = {}
    for one, other, rail in paths:
        said.setdefault(one, []).append(text(row, number, one, other, rail, is_ib=is_ib))
    for one, lines in said.items():
        words_are(ran, f"n{one}", one * GPUS, "\n".join(lines))
    all_waited(ran, *(f"n{one}" for one in said))
    return judge(ran)


def is_sure(found):
    return [each for each in found if each.proven]


@st.composite
def fleets(draw):
    """Return a wording with a number, where it stands, and some nodes of a fleet with a rail."""
    case = draw(st.sampled_from(CASES + UNKNOWN))
    count = draw(st.integers(5, 12))
    order = draw(st.permutations(range(count)))
    return (
        case,
        draw(st.sampled_from([in_standard_error, in_a_report, in_the_log])),
        count,
        order,
        draw(st.integers(0, GPUS - 1)),
        draw(st.booleans()) and case[0]["read"] == "completion",
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(fleets())
def test_paths_name_the_end_that_they_share_and_one_line_proves_nothing(fleet):
    case, words_are, nodes, (bad, one, two, three, *_), rail, is_ib = fleet
    line, others = case[0]["line"], (one, two, three)

    def found(*paths):
        return blame(case, words_are, [(*each, rail) for each in paths], nodes, is_ib=is_ib)

    towards = found(*((each, bad) for each in others))
    away = found(*((bad, each) for each in others))
    both = found((bad, one), (one, bad))
    assert is_sure(found((one, bad))) == []
    if "{remote}" not in line and "{peer}" not in line:  # it names no other end
        assert is_sure(towards + away + both) == []
        return
    end = ("node", (f"n{bad}",), None) if is_ib and "{hca}" not in line else None
    end = end or ("rail", (f"n{bad}",), rail)
    assert named(towards) == named(away) == {end}
    assert len(is_sure(towards)) == len(is_sure(away)) == 1
    (pair,) = both
    assert (pair.level, pair.nodes, pair.proven) == (
        "pair",
        tuple(sorted((f"n{bad}", f"n{one}"))),
        True,
    )


@pytest.mark.parametrize("row", [row for row in CONNECTS if "{peer}" in row["line"]])
def test_connections_name_the_end_that_they_share_and_one_line_proves_nothing(row):
    def found(*paths):
        return blame((row, 0), in_a_report, [(*each, 0) for each in paths])

    end = {("node", ("n5",), None)}
    assert named(found((1, 5), (2, 5), (3, 5))) == end
    assert named(found((5, 1), (5, 2), (5, 3))) == end
    assert named(found((1, 5), (5, 1))) == {("pair", ("n1", "n5"), None)}
    assert is_sure(found((1, 5))) == []


@pytest.mark.parametrize("row", PORTS, ids=lambda row: row["since"])
@pytest.mark.parametrize("at_fault", [1, 5])
def test_the_end_whose_port_went_down_is_named_alone(row, at_fault):
    ran = failed_run(8)
    for one, other in ((1, 5), (5, 1)):
        in_standard_error(ran, f"n{one}", one * GPUS, completion(one, other, 3))
    said = f"[3] p2p_plugin.c:141 NCCL WARN {text(row, 0, at_fault, 6 - at_fault, 3)}"
    ran.nodes[f"n{at_fault}"].logs = packed(f"n{at_fault}:984:1357 {said}\n")
    all_waited(ran)
    assert named(judge(ran)) == {("rail", (f"n{at_fault}",), 3)}


@pytest.mark.parametrize("row", wordings(), ids=lambda row: f"{row['what']} {row['since']}")
def test_each_wording_is_read_as_the_table_says(row):
    line = text(row, 12, 1, 5, 3)
    if row["read"] in ("completion", "ibv_modify_qp"):
        found = parse_completion(line.encode())
        assert found is not None
        assert (found.status, found.call or "completion") == (12, row["read"])
        assert bool(found.hca) == ("{hca}" in row["line"])
        assert bool(found.remote_gid) == ("{remote}" in row["line"])
    else:
        cause = find_cause(f"x.cc:1 NCCL WARN {line}")
        assert cause is not None
        assert cause.id == row["read"]
        assert "{" not in cause.meaning(line)


def test_the_page_has_each_wording_with_its_versions():
    page = place_in_page(f"before\n{BEGIN}\nold\n{END}\nafter")
    assert page.startswith("before\n")
    assert page.endswith("\nafter")
    assert "old" not in page
    assert page.count("\n| ") == len(wordings()) + 1
