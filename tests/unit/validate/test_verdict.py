"""The line that a check fails with, and how a report takes it apart."""

from types import SimpleNamespace
from typing import cast

import pytest
import testinfra
from testinfra.backend.base import CommandResult

from rdmaprov.facts import CouldNotTell
from rdmaprov.inventory import Node
from rdmaprov.validate import outcome
from rdmaprov.validate.results import CheckResults
from rdmaprov.validate.verdict import AFTER_REBOOT, Setting, rdmaprov, reboot, settle, split_remedy

NODE = cast(Node, SimpleNamespace(name="gpu07"))
OTHER = cast(Node, SimpleNamespace(name="gpu08"))


@pytest.fixture(autouse=True)
def site(monkeypatch):
    monkeypatch.setenv("RDMAPROV_INVENTORY", "inventory/prod")


def setting(name="PFC is on for priority", **more):
    return Setting(NODE, "ens1", name, "roce_qos_pfc_priorities", where="dcb pfc show", **more)


def test_message_has_seen_expected_variable_place_and_fix():
    assert setting().text([4], [3]) == (
        "gpu07 ens1: running: PFC is on for priority 4, expected 3 "
        "(roce_qos_pfc_priorities; read: dcb pfc show). "
        "Fix, from the controller: rdmaprov apply inventory/prod --limit gpu07"
    )


@pytest.mark.parametrize(
    ("more", "remedy"),
    [
        ({}, "Fix, from the controller: rdmaprov apply inventory/prod --limit gpu07"),
        ({"fix": "systemctl daemon-reload"}, "Fix, on gpu07: systemctl daemon-reload"),
        ({"look": "rdma link"}, "Look, on gpu07: rdma link"),
        (
            {"fix": reboot(NODE)},
            "Fix, from the controller: rdmaprov apply SITE --limit gpu07 --reboot if-needed",
        ),
    ],
)
def test_remedy_says_where_it_is_run(more, remedy):
    what, found = split_remedy(setting(**more).text(1, 2))
    assert what.endswith("(roce_qos_pfc_priorities; read: dcb pfc show)")
    assert found == remedy


def test_command_names_the_site_and_all_nodes():
    assert (
        rdmaprov("validate", NODE, OTHER) == "rdmaprov validate inventory/prod --limit gpu07,gpu08"
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "absent"), (True, "on"), (False, "off"), ((), "none"), ({3, 4}, "3, 4"), ("", "empty")],
)
def test_value_in_words(value, words):
    assert f": MTU is {words}, expected 1 " in setting("MTU").text(value, 1).replace(
        "running: ", ""
    )


def test_layer_is_shown():
    assert setting(truth=AFTER_REBOOT).text(1, 2).startswith("gpu07 ens1: after reboot: ")


def test_require_passes_an_equal_value_and_fails_another():
    setting().require([3], [3])
    with pytest.raises(AssertionError, match="expected 3"):
        setting().require([4], [3])


def test_kind_and_part_of_a_finding_are_in_the_results():
    def result(**more):
        results = CheckResults()
        report = pytest.TestReport("a.py::b[n]", ("", 0, ""), {}, "failed", None, "call")
        with pytest.raises(AssertionError) as found:
            setting(**more).reject(4, 3)
        report.longrepr = outcome.one_line(found)
        outcome.classify(report, found)
        results.pytest_runtest_logreport(report)
        return results.as_data()["checks"][0]

    assert result(kind="gpu.pcie") == {**result(), "kind": "gpu.pcie", "part": "ens1"}
    assert "kind" not in result()


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ("gpu07: it hangs", ("gpu07: it hangs", "")),
        ("no dcb. On the node: apt-get install x", ("no dcb", "On the node: apt-get install x")),
        ("a. Fix, on gpu-7.s: b. Look, on c: d", ("a", "Fix, on gpu-7.s: b. Look, on c: d")),
        ("a. Fix it", ("a. Fix it", "")),
    ],
)
def test_message_is_split(message, parts):
    assert split_remedy(message) == parts


def test_failures_go_before_what_is_unknown():
    settle([], [])
    with pytest.raises(AssertionError, match="wrong\nlost"):
        settle(["wrong"], ["lost"])
    with pytest.raises(CouldNotTell, match="lost; gone"):
        settle([], ["lost", "gone"])


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        (b"REMOTE HOST\r\nHost key verification failed.\r\n", "Host key verification failed."),
        (b"", "exit code 255"),
    ],
)
def test_ssh_of_testinfra_that_does_not_connect_is_one_line(stderr, line):
    result = CommandResult(testinfra.get_host("local://").backend, 255, b"true", b"", stderr)
    with pytest.raises(RuntimeError) as raised:
        raise RuntimeError(result)
    assert outcome.first_line(raised) == line
