"""Each wrong site is refused, with the line that is wrong and what to write; and notes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from tests.unit.helpers import sites
from tests.unit.helpers.sites import Wrong, raw_spec

from rdmaprov import contract
from rdmaprov.cli.check import controller_note
from rdmaprov.contract.qos import NOTES
from rdmaprov.contract.subnet import _hosts
from rdmaprov.inventory import Fleet, Node, load_site, schema
from rdmaprov.problem import Position, Problem

CASES = sites.wrong_sites()
CONTROLLER = Path(schema.__file__).with_name("scheduler_variables.yml")


def found(site: Path) -> list[Problem]:
    return contract.problems(load_site(site))


@dataclass(frozen=True)
class Loaded:
    """A wrong site as Ansible reads it, and its problems."""

    case: Wrong
    fleet: Fleet
    problems: list[Problem]


# Of a module, so that pytest runs all tests of one site together: each is loaded once.
@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.id)
def wrong(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    case: Wrong = request.param
    fleet = load_site(sites.write(tmp_path_factory.mktemp("wrong") / "site", case.all_files()))
    return Loaded(case, fleet, contract.problems(fleet))


@pytest.fixture(scope="module")
def specs() -> dict[str, dict[str, Any]]:
    """Return the options of all roles' specs, and of the controller's variables."""
    written = yaml.safe_load(CONTROLLER.read_text())["argument_specs"]["main"]
    options: dict[str, dict[str, Any]] = dict(written["options"])
    for role in schema.load_shipped().roles:
        options |= raw_spec(role)
    return options


def test_wrong_site_is_refused_at_its_line(wrong: Loaded):
    site, case = wrong.fleet.site, wrong.case
    texts = [problem.text(site) for problem in wrong.problems]
    file, line = case.place()
    matching = [
        problem
        for problem, text in zip(wrong.problems, texts, strict=True)
        if problem.rule == case.rule and case.says in text
    ]
    assert matching, texts
    assert [(str(Path(p.position.file).relative_to(site)), p.position.line) for p in matching][
        :1
    ] == [(file, line)], texts


def test_remedy_is_never_the_value_that_is_wrong(wrong: Loaded):
    values = {key: str(value) for node in wrong.fleet.nodes for key, value in node.values.items()}
    for problem in wrong.problems:
        suggested = re.match(r"write (?:.*such as )?(\S+?)(?:,.*)?$", problem.remedy)
        assert not suggested or suggested[1] != values.get(problem.variable), problem


def test_what_is_accepted_ansible_accepts(wrong: Loaded, specs: dict[str, dict[str, Any]]):
    """Check is never looser than the argument specs that Ansible enforces on the node."""
    for node in wrong.fleet.nodes[:1]:
        spec = {key: text for key, text in specs.items() if key in node.values}
        assert ArgumentSpecValidator(spec).validate(dict(node.values)).error_messages == []


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
    (problem,) = found(sites.write(tmp_path, {**sites.GOOD, "group_vars/nodes.yml": text}))
    assert (problem.variable, problem.hosts) == (text.partition(":")[0], ("n1", "n2"))


def test_good_site_has_no_problems(tmp_path: Path):
    assert found(sites.write(tmp_path / "site", sites.GOOD)) == []


def test_every_rule_has_a_wrong_site():
    rules = {rule.id for rule in contract.RULES}
    assert rules - {case.rule for case in CASES} == NOTES


def test_rule_ids_are_unique():
    ids = [rule.id for rule in contract.RULES]
    assert len(ids) == len(set(ids))


def test_table_is_long_enough():
    assert len({case.id for case in CASES}) == len(CASES) >= 60


def test_small_neighbor_table_of_the_controller_is_noted(tmp_path):
    path = tmp_path / "proc/sys/net/ipv4/neigh/default/gc_thresh3"
    assert controller_note(2000, tmp_path) == ""  # not Linux, or a namespace
    path.parent.mkdir(parents=True)
    path.write_text("1024\n")
    assert controller_note(512, tmp_path) == ""
    said = controller_note(2000, tmp_path)
    assert "holds 1024 entries" in said
    assert said.endswith("sysctl -w net/ipv4/neigh/default/gc_thresh3=8000")


@pytest.mark.parametrize(
    ("kernel", "refused"),
    [
        ("5.4.0-150-generic", True),
        ("5.12.0", False),
        ("5.14.0-503.el9_5.x86_64", False),
        ("4.18.0-553.el8_10.x86_64", False),
    ],
)
def test_number_of_red_hats_kernels_does_not_tell(tmp_path: Path, kernel: str, refused: bool):
    more = f"peermem_kernel_version: {kernel}\npeermem_mode: dmabuf\n"
    site = {**sites.GOOD, "group_vars/all.yml": sites.GOOD["group_vars/all.yml"] + more}
    problems = contract.problems(load_site(sites.write(tmp_path / "site", site)))
    assert ("peermem.dmabuf" in {problem.rule for problem in problems}) is refused


NAMES = [f"ib{number:02}" for number in (7, 3, 5, 1, 6, 2, 4)]


def test_hosts_that_are_listed_twice_are_named_in_the_order_of_the_list():
    values = {"subnet_manager_hosts": [*NAMES, *NAMES]}
    node = Node("ib01", (), values, (), frozenset(), (), lambda *_: Position("site"))
    assert [found.message for found in _hosts(node)] == [
        f"{name} is listed 2 times" for name in NAMES
    ]
