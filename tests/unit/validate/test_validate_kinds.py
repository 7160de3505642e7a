"""What validate prints of a fleet: one line for each kind of problem; and its junit.xml."""

import xml.etree.ElementTree as ET

import pytest

from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.masks import Mask
from rdmaprov.validate.junit import JUnit
from rdmaprov.validate.progress import Kinds
from rdmaprov.validate.results import CheckResults

NODES = [f"gpu{number:02}" for number in range(1, 11)]
REFUSED = "ssh: connection refused. Is sshd running there? Try: ssh -p 2222 root@192.0.2."


def report(test, node, text, outcome="failed", when="call", lost=False):
    made = pytest.TestReport(
        f"test_it.py::{test}[{node}]",
        ("test_it.py", 1, test),
        {},
        outcome,
        ("test_it.py", 1, f"Skipped: {text}") if outcome == "skipped" else text,
        when,
        user_properties=[("node", node)] if node else [],
    )
    vars(made)["rdmaprov_unreachable"] = lost
    return made


def problems(reports, nodes=NODES):
    kinds = Kinds(nodes)
    for each in reports:
        kinds.add(each)
    return list(kinds.problems())


def refused(node, tests=50):
    address = f"{REFUSED}{NODES.index(node) + 1}"
    return [
        report(f"test_{number}", node, f"{node}: {address}", when="setup", lost=True)
        for number in range(tests)
    ]


def test_unreachable_node_is_one_line_in_all():
    found = problems([each for node in NODES[:4] for each in refused(node)])
    assert found == [f"4 nodes (gpu[01-04]): {REFUSED}1 [50 tests, 200 checks]"]


def test_node_that_is_lost_for_several_reasons_is_one_line_too():
    lost = refused("gpu01", 2)
    lost.append(report("test_9", "gpu01", "gpu01: the run has ended", when="setup", lost=True))
    assert problems(lost) == [f"gpu01: {REFUSED}1 [3 tests, 3 checks]"]


def test_same_failure_of_all_rails_of_all_nodes_is_one_line():
    text = "{node} ens{rail}: running: PFC is on for priority 4, expected 3 (read: dcb pfc)"
    found = problems(
        report("test_pfc", node, text.format(node=node, rail=rail))
        for node in NODES
        for rail in range(8)
    )
    same = "running: PFC is on for priority 4, expected 3 (read: dcb pfc)"
    assert found == [f"10 nodes: NODE ens0: {same} [test_pfc, 80 checks]"]


def test_other_values_are_other_kinds_and_failures_come_before_what_is_unknown():
    found = problems(
        [
            *refused("gpu07", 1),
            *refused("gpu08", 1),
            report("test_mtu", "gpu01", "gpu01: MTU is 1500"),
            report("test_mtu", "gpu02", "gpu02: MTU is 4200"),
        ]
    )
    assert found[:2] == ["gpu01: MTU is 1500 [test_mtu]", "gpu02: MTU is 4200 [test_mtu]"]
    assert found[2].startswith("2 nodes (gpu[07-08]): ssh: connection refused")


def test_check_of_the_fleet_that_lists_all_its_nodes_is_short():
    (found,) = problems([report("test_bios", "", "unknown: " + "gpu01: no answer; " * 5000)])
    assert found.startswith("the fleet: unknown: gpu01: no answer; ")
    assert found.endswith("… (whole: results.json) [test_bios]")
    assert len(found) < 600


def test_skips_are_one_line_for_each_reason_without_a_place():
    kinds = Kinds(NODES)
    for node in NODES[:3]:
        kinds.add(report("test_acs", node, "pcie_acs_redirect: keep", "skipped"))
        kinds.add(report("test_iommu", node, "pcie_acs_redirect: keep", "skipped"))
    reason = "pcie_acs_redirect: keep [2 tests, 6 checks]"
    assert list(kinds.skipped()) == [f"3 nodes (gpu[01-03]): {reason}"]
    assert not list(kinds.problems())


def test_only_the_commonest_reasons_for_skips_are_lines():
    kinds = Kinds(NODES)
    for number in range(9):
        for node in NODES[: number + 1]:
            kinds.add(report("test_acs", node, f"reason {number}", "skipped"))
    *shown, rest = kinds.skipped()
    assert [line.partition("reason ")[2][0] for line in shown] == ["8", "7", "6", "5", "4"]
    assert rest == "and 4 more: see the report"


def test_unreachable_node_is_one_entry_in_the_results_with_the_names_of_all_its_checks():
    results = CheckResults(tuple(NODES))
    for each in [*refused("gpu01"), report("test_mtu", "gpu02", "gpu02: MTU is 1500")]:
        results.pytest_runtest_logreport(each)
    lost, failed = results.as_data()["checks"]
    names = [lost["test"], *lost["also"]]
    assert names == [f"test_it.py::test_{number}[gpu01]" for number in range(50)]
    assert (lost["node"], lost["outcome"]) == ("gpu01", "error")
    assert lost["message"] == f"gpu01: {REFUSED}1"
    assert "also" not in failed
    assert results.nodes_as_data()["gpu01"]["error"] == 50


@pytest.fixture
def document(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(*reports):
        mask = Mask(["hunter22"])
        with RunDirectory("validate", mask, log="pytest.log") as directory:
            junit = JUnit(directory, mask)
            for each in reports:
                junit.pytest_runtest_logreport(each)
            junit.close()
            kept = directory.path / "junit.xml"
            assert kept.stat().st_mode & 0o777 == 0o600
            assert sorted(path.name for path in directory.path.iterdir()) == ["junit.xml", "logs"]
            return ET.parse(kept).getroot()  # noqa: S314 - our own

    return write


def test_each_check_is_a_case_and_the_head_counts_them(document):
    root = document(
        report("test_mtu", "gpu01", None, "passed"),
        report("test_mtu", "gpu02", None, "passed", when="setup"),
        report("test_mtu", "gpu02", "MTU is 1500"),
        report("test_lost", "gpu03", "no answer", when="setup"),
        report("test_acs", "gpu01", "keep", "skipped"),
    )
    (suite,) = root
    counts = {word: int(suite.get(word)) for word in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": 4, "failures": 1, "errors": 1, "skipped": 1}
    cases = [
        (
            case.get("classname"),
            case.get("name"),
            [(child.tag, child.get("message")) for child in case],
        )
        for case in suite
    ]
    assert cases == [
        ("test_it", "test_mtu[gpu01]", []),
        ("test_it", "test_mtu[gpu02]", [("failure", "MTU is 1500")]),
        ("test_it", "test_lost[gpu03]", [("error", "no answer")]),
        ("test_it", "test_acs[gpu01]", [("skipped", "keep")]),
    ]


def test_text_is_masked_and_what_xml_cannot_have_is_escaped(document):
    root = document(report("test_it", "n1", "hunter22 <b> \x1b[31m \udce9 ]]> \"'&"))
    (failure,) = root.iter("failure")
    for text in (failure.get("message"), failure.text):
        assert text.startswith("******** <b> #x1B[31m #x")
        assert text.endswith(" ]]> \"'&")


def test_file_has_nothing_that_a_terminal_obeys(document, tmp_path):
    (failure,) = document(report("test_it", "n1", "\u202egnp.exe \x9b")).iter("failure")
    assert failure.get("message") == "\u202egnp.exe \x9b"
    (kept,) = tmp_path.glob("runs/*/junit.xml")
    assert "&#x202e;gnp.exe &#x9b;" in kept.read_text()
    assert "\u202e" not in kept.read_text()
