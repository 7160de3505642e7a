"""Each wrong site is refused, with the line that is wrong and what to write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.helpers import sites
from tests.unit.helpers.sites import Wrong

from rdmaprov import contract
from rdmaprov.inventory import load_site
from rdmaprov.problem import Problem

CASES = sites.wrong_sites()


def found(site: Path) -> list[Problem]:
    return contract.problems(load_site(site))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_wrong_site_is_refused_at_its_line(case: Wrong, tmp_path: Path):
    site = sites.write(tmp_path / "site", case.all_files())
    problems = found(site)
    texts = [problem.text(site) for problem in problems]
    file, line = case.place()
    matching = [
        problem
        for problem, text in zip(problems, texts, strict=True)
        if problem.rule == case.rule and case.says in text
    ]
    assert matching, texts
    assert [(str(Path(p.position.file).relative_to(site)), p.position.line) for p in matching][
        :1
    ] == [(file, line)], texts


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_remedy_is_never_the_value_that_is_wrong(case: Wrong, tmp_path: Path):
    site = sites.write(tmp_path / "site", case.all_files())
    fleet = load_site(site)
    values = {name: str(value) for node in fleet.nodes for name, value in node.values.items()}
    for problem in contract.problems(fleet):
        suggested = re.match(r"write (?:.*such as )?(\S+?)(?:,.*)?$", problem.remedy)
        assert not suggested or suggested[1] != values.get(problem.variable), problem


@pytest.mark.parametrize(
    "text",
    [
        "fabric_lossless_priority: 8",
        "fabric_roce_dscp: 64",
        "fabric_roce_dscp: 48",
        "fabric_roce_dscp: true",
        "fabric_roce_dscp: 26.5",
        "nccl_ib_address_family: ipv6",
        "nccl_ib_address_range: 10.0.0.0/8",
    ],
)
def test_wrong_value_is_one_problem_however_many_are_derived_from_it(text: str, tmp_path: Path):
    site = sites.write(tmp_path, {**sites.GOOD, "group_vars/nodes.yml": text})
    (problem,) = found(site)
    assert (problem.variable, problem.hosts) == (text.partition(":")[0], ("n1", "n2"))


def test_good_site_has_no_problems(tmp_path: Path):
    assert found(sites.write(tmp_path / "site", sites.GOOD)) == []


def test_every_rule_has_a_wrong_site():
    rules = {rule.id for rule in contract.RULES}
    assert rules - {case.rule for case in CASES} == set()


def test_rule_ids_are_unique():
    ids = [rule.id for rule in contract.RULES]
    assert len(ids) == len(set(ids))


def test_table_is_long_enough():
    assert len({case.id for case in CASES}) == len(CASES) >= 60
