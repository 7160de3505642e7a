"""The partition keys of rails' ports against the site's, by what smpquery prints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.helpers.subnet_texts import Texts
from tests.unit.subnet.test_site_subnet import planned

from rdmaprov.exit_codes import ExitCode
from rdmaprov.site_subnet.judge_site import judge_site
from rdmaprov.site_subnet.partition_tables import partition_tables, read_tables
from rdmaprov.site_subnet.tool import ToolOutput
from rdmaprov.subnet.problem import level, where

TABLE = (Path(__file__).parents[2] / "fixtures/subnet/ibsim/smpquery-pkeys.txt").read_text()
# As smpquery of infiniband-diags 44 says it on ibsim, of a LID that nobody has.
NO_ANSWER = (
    'ibwarn: [29733] sim_connect: attached as client 1 at node "H-0000000000300000"\n'
    "ibwarn: [29733] mad_rpc: _do_madrpc failed; dport (Lid 4)\n"
    "/usr/sbin/smpquery: iberror: failed: operation pkeys: node info query failed\n"
)


class Reader:
    """A host whose smpquery prints a table for each port, but for some of them another one."""

    name = "node001"

    def __init__(self, **others):
        self.others, self.calls = others, []

    def run(self, words, _limit_s):
        shell, _, loop, _, *numbers = words
        self.calls.append((loop, numbers))
        assert shell == "sh"
        text = "".join(
            f"rdmaprov-lid {lid}\n{self.others.get(f'lid{lid}', TABLE)}" for lid in numbers[::2]
        )
        lost = any(other == "" for other in self.others.values())
        return ToolOutput(text, NO_ANSWER if lost else "", 0)


@pytest.fixture
def subnet(tmp_path):
    return Texts(tmp_path).judge()


def judged(subnet, reader, keys=(0xFFFF,), device=""):
    plan = planned()
    plan = replace(plan, rails=tuple(replace(rail, pkeys=keys) for rail in plan.rails))
    tables = partition_tables(plan, {device: subnet}, reader, [])
    site = judge_site(plan, [subnet], tables=tables)
    return site, [(level(f), where(f), f.what) for f in site.findings]


def lid_of(subnet, name):
    return next(hca.end.lid for hca in subnet.fabric.hcas if hca.end.name == name)


def test_ports_with_the_sites_keys_are_silent_and_each_is_asked_once(subnet):
    reader = Reader()
    site, told = judged(subnet, reader)
    assert (told, site.exit_code) == ([], ExitCode.OK)
    [(loop, numbers)] = reader.calls
    assert "smpquery pkeys" in loop
    assert len(numbers) == 2 * 32
    assert set(numbers[1::2]) == {"1"}


def test_nothing_is_asked_where_the_site_names_no_keys(subnet):
    reader = Reader()
    assert judged(subnet, reader, keys=()) == judged(subnet, Reader(), keys=())
    assert reader.calls == []


def test_device_that_was_read_through_is_named_to_the_tool(subnet):
    reader = Reader()
    judged(subnet, reader, device="mlx5_2")
    assert "smpquery -C mlx5_2 pkeys" in reader.calls[0][0]


def test_port_with_another_membership_is_named(subnet):
    """A limited member reaches full ones alone, so 0x7fff is not 0xffff."""
    lid = lid_of(subnet, "node003 mlx5_1")
    site, told = judged(subnet, Reader(**{f"lid{lid}": TABLE.replace("0xffff", "0x7fff")}))
    says = "lacks the partition key 0xffff; it has 0x7fff"
    assert told == [("wrong", "node003 rail 1", says)]
    assert site.exit_code == ExitCode.FAILED


def test_port_that_does_not_answer_is_not_verified_with_the_tools_reason(subnet):
    lid = lid_of(subnet, "node003 mlx5_1")
    site, told = judged(subnet, Reader(**{f"lid{lid}": ""}))
    ((level, _, text),) = told
    assert level == "unknown"
    assert text.startswith("the partition keys of node003 rail 1: ")
    assert text.endswith("operation pkeys: node info query failed")
    assert site.exit_code == ExitCode.UNKNOWN


@pytest.mark.parametrize("cut", [TABLE[:200], TABLE.replace("64 pkeys", "many keys"), ""])
def test_table_that_is_cut_is_none(cut):
    assert list(read_tables(["rdmaprov-lid 7", *cut.splitlines()])) == []
    after = ["rdmaprov-lid 7", *cut.splitlines(), "rdmaprov-lid 9", *TABLE.splitlines()]
    assert list(read_tables(after)) == [(9, frozenset({0xFFFF}))]
