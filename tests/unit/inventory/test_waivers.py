"""Rules that a site waives."""

import json
from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers import sites

from rdmaprov import contract
from rdmaprov.contract.waivers import NOT_WAIVABLE
from rdmaprov.inventory import load_site

# Two rules are violated: the CNPs' priority has PFC, and there are two priorities with PFC.
WRONG = "roce_qos_pfc_priorities: [3, 6]\n"


def judge(tmp_path: Path, more: str):
    everyone = sites.GOOD["group_vars/all.yml"] + more
    site = sites.write(tmp_path / "site", {**sites.GOOD, "group_vars/all.yml": everyone})
    return contract.judge(load_site(site))


def judged(tmp_path: Path, waivers: str):
    problems, waived = judge(tmp_path, WRONG + waivers)
    return {p.rule: p.hosts for p in problems}, {w.problem.rule: w for w in waived}


def test_without_a_waiver_each_problem_stays(tmp_path: Path):
    stay, waived = judged(tmp_path, "")
    assert set(stay) == {"qos.pfc-one", "qos.pfc-cnp"}
    assert waived == {}


def test_waiver_accepts_its_rule_alone_and_says_why(tmp_path: Path):
    reason = "fabric_waivers: [{rule: qos.pfc-one, reason: two lossless priorities}]\n"
    stay, waived = judged(tmp_path, reason)
    assert set(stay) == {"qos.pfc-cnp"}
    text = waived["qos.pfc-one"].text
    assert text.startswith("waived (qos.pfc-one: two lossless priorities): roce_qos_pfc_priorities")
    assert "[n1, n2" in text


def test_waiver_is_for_its_nodes_alone(tmp_path: Path):
    reason = "fabric_waivers: [{rule: qos.pfc-one, reason: old switch, nodes: ['*1']}]\n"
    stay, waived = judged(tmp_path, reason)
    assert "n1" not in stay["qos.pfc-one"]
    assert "n2" in stay["qos.pfc-one"]
    assert waived["qos.pfc-one"].problem.hosts == ("n1",)


@pytest.mark.parametrize(
    ("entry", "message"), cases(__file__, "waiver_that_cannot_be_is_a_problem")
)
def test_waiver_that_cannot_be_is_a_problem(tmp_path: Path, entry: str, message: str):
    (problem,), _ = judge(tmp_path, f"fabric_waivers: [{entry}]\n")
    assert message in problem.message
    assert (problem.rule, problem.variable) == ("waivers.valid", "fabric_waivers")


@pytest.mark.parametrize("rule", sorted(NOT_WAIVABLE))
def test_rule_that_protects_nodes_or_downloads_is_not_waived(tmp_path: Path, rule: str):
    (problem,), _ = judge(tmp_path, f"fabric_waivers: [{{rule: {rule}, reason: x}}]\n")
    assert problem.text().endswith(
        "remove it, and fix the problem that it names [n1, n2] (waivers.valid)"
    )


@pytest.mark.parametrize(("wrong", "rule"), cases(__file__, "hostile_value_stays_a_problem"))
def test_hostile_value_stays_a_problem(tmp_path: Path, wrong: str, rule: str):
    problems, waived = judge(tmp_path, f"{wrong}fabric_waivers: [{{rule: {rule}, reason: x}}]\n")
    assert {problem.rule for problem in problems} == {rule, "waivers.valid"}
    assert waived == []


def test_same_finding_with_two_reasons_is_two_entries(tmp_path: Path):
    files = {
        **sites.GOOD,
        "group_vars/all.yml": sites.GOOD["group_vars/all.yml"] + "roce_qos_trust: pcp\n",
        "host_vars/n1.yml": "fabric_waivers: [{rule: qos.trust, reason: one}]\n",
        "host_vars/n2.yml": "fabric_waivers: [{rule: qos.trust, reason: other}]\n",
    }
    problems, waived = contract.judge(load_site(sites.write(tmp_path / "site", files)))
    assert problems == []
    found = "roce_qos_trust: ports trust PCP, but rail 0 has no VLAN tag to carry it"
    assert [each.as_data() for each in waived] == [
        {"rule": "qos.trust", "reason": reason, "nodes": [node], "found": found}
        for reason, node in (("one", "n1"), ("other", "n2"))
    ]


def test_reason_that_could_drive_a_terminal_is_escaped(tmp_path: Path):
    _, waived = judged(tmp_path, 'fabric_waivers: [{rule: qos.pfc-one, reason: "a\\e[31mb"}]\n')
    assert waived["qos.pfc-one"].text.startswith("waived (qos.pfc-one: a\\x1b[31mb): ")


def test_rules_that_cannot_be_waived_exist():
    assert {rule.id for rule in contract.RULES} > NOT_WAIVABLE


def test_a_problems_line_ends_with_its_rule(tmp_path: Path):
    lines = [problem.text() for problem in judge(tmp_path, WRONG)[0]]
    assert [line.rpartition(" ")[2] for line in lines] == ["(qos.pfc-one)", "(qos.pfc-cnp)"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [("fabric_roce_dscp: 0", "RoCE data has DSCP 0"), ("fabric_cnp_dscp: 0", "CNPs have DSCP 0")],
)
def test_note_is_said_and_refuses_nothing(tmp_path: Path, lines: str, said: str):
    problems, waived = judge(tmp_path, lines + "\n")
    assert [p.rule for p in problems] == []
    (note,) = [each.text for each in waived]
    assert note.startswith(f"note (qos.unmarked): {lines.partition(':')[0]}: {said}")


_ROCE = (
    "fabric_kind: roce\nfabric_link_gbps: 400\nfabric_roce_dscp: 26\nfabric_lossless_priority: 3"
)


def rules_of(tmp_path: Path, fleet: str, addresses: list[list[str]]) -> set[str]:
    hosts = ""
    for name, own in zip(("n1", "n2"), addresses, strict=True):
        rails = []
        for number, address in enumerate(own):
            entry = {"pci": f"0000:18:00.{number}"} | ({"address": address} if address else {})
            is_storage = number and "infiniband" in fleet
            rails.append(json.dumps(entry | ({"use": "storage"} if is_storage else {})))
        hosts += f"    {name}: {{fabric_rails: [{', '.join(rails)}]}}\n"
    files = {"hosts.yml": f"all:\n  hosts:\n{hosts}", "group_vars/all.yml": fleet + "\n"}
    return {each.rule for each in contract.problems(load_site(sites.write(tmp_path / "s", files)))}


@pytest.mark.parametrize(
    ("fleet", "addresses", "rule"), cases(__file__, "addresses_as_sites_have_them")
)
def test_addresses_as_sites_have_them(tmp_path: Path, fleet: str, addresses, rule: str):
    found = {each for each in rules_of(tmp_path, fleet, addresses) if each.startswith("rails.")}
    assert rule in found if rule else found == set()
