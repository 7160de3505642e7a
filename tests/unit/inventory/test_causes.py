"""A problem is reported at its cause, once for all nodes that have it."""

from __future__ import annotations

from pathlib import Path

from tests.unit.helpers import sites

from rdmaprov import contract
from rdmaprov.inventory import load_site
from rdmaprov.problem import Position, Problem, fold_problems


def found(tmp_path: Path, more: str, **hosts: str) -> dict[str, Problem]:
    everyone = sites.GOOD["group_vars/all.yml"] + more
    files = {f"host_vars/{name}.yml": text for name, text in hosts.items()}
    site = {**sites.GOOD, "group_vars/all.yml": everyone, **files}
    problems = contract.problems(load_site(sites.write(tmp_path / "site", site)))
    return {problem.rule: problem for problem in problems}


def test_what_is_derived_from_a_wrong_value_is_left_out(tmp_path: Path):
    problems = found(tmp_path, "fabric_lossless_priority: 9\n")
    assert list(problems) == ["range.value"]
    assert problems["range.value"].variable == "fabric_lossless_priority"
    assert problems["range.value"].hosts == ("n1", "n2")


def test_node_that_derives_from_a_right_value_is_not_blamed(tmp_path: Path):
    problems = found(tmp_path, "", n2="fabric_lossless_priority: 9\n")
    assert {rule: problem.hosts for rule, problem in problems.items()} == {"range.value": ("n2",)}


def test_written_value_is_judged_beside_the_one_it_could_be_made_from(tmp_path: Path):
    problems = found(tmp_path, "fabric_lossless_priority: 9\nroce_qos_tos: 300\n")
    variables = {problem.variable for problem in problems.values()}
    assert variables == {"fabric_lossless_priority", "roce_qos_tos"} or "qos.tos" in problems


def test_what_no_file_states_is_one_problem_of_all_nodes(tmp_path: Path):
    everyone = sites.GOOD["group_vars/all.yml"].replace("fabric_link_gbps: 400\n", "")
    site = {**sites.GOOD, "group_vars/all.yml": everyone}
    (problem,) = contract.problems(load_site(sites.write(tmp_path / "site", site)))
    assert (problem.variable, problem.message) == ("fabric_link_gbps", "is missing")
    assert problem.hosts == ("n1", "n2")
    assert problem.position.line == 4  # n1 in hosts.yml


def test_other_problem_of_the_node_hides_nothing(tmp_path: Path):
    """The waived cause is no problem, so that what follows from it is one."""
    waiver = "fabric_waivers: [{rule: ets.lossless-alone, reason: x}]\n"
    problems = found(tmp_path, f"fabric_lossless_priority: 0\nfabric_mtu_bytes: 1500\n{waiver}")
    assert "mtu.netdev" in problems
    assert problems["ets.sum"].variable == "roce_qos_tc_percent"


def problem(message: str, host: str) -> Problem:
    return Problem(Position("all.yml", 3, 1), "fabric_rails", message, "write one", "x.y", (host,))


def test_three_messages_at_one_place_are_shown_and_more_are_one():
    four = [problem(f"address {number} is wrong", f"n{number}") for number in range(4)]
    assert fold_problems(four[:3]) == four[:3]
    (folded,) = fold_problems(four)
    assert folded.message == "address 0 is wrong (and 3 more here)"
    assert folded.hosts == ("n0", "n1", "n2", "n3")
