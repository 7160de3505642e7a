"""Sequences of runs: a node passed if, and only if, the last word about it is a complete pass."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import cases

from rdmaprov.acceptance.stages import preflight
from rdmaprov.cli.replace_work import known_good
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history.answer import read_history
from rdmaprov.history.compare import read_pair
from rdmaprov.history.metrics import metrics_text
from rdmaprov.runs.last_word import PASSED, Word, last_words

NODE = "gpu01"
BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
BOOT = "{:08x}-0000-4000-8000-000000000000"
FAULT = {"test": "test_mtu.py::test_mtu[gpu01-rail0]", "node": NODE, "rail": 0, "message": "x. y."}

# By name: the verb, the state of the node, what left checks out, whether the node was asked all.
PASS, FAIL = "passed", "failed"
RUNS = cases(__file__, "runs")
# Those that end without the node's boot: it was not asked, or older versions did not ask.
BOOTLESS = cases(__file__, "bootless")
# What of these is a word about the node; nothing of the others is.
WORDS = {
    "complete": True,
    "--limit to it": True,
    **dict.fromkeys(
        ("complete, wrong", "-k, wrong", "-x, wrong", "unreachable", "apply changed it"), False
    ),
    "revert changed it": False,
    "apply failed": False,
    "apply lost it": False,
}


class Fleet:
    def __init__(self, directory):
        self.runs, self.site = directory / "runs", directory / "dc1"
        self.hour, self.boot, self.booted = 0, 0, 0
        self.is_good = False

    def __call__(self, kind, clock_h=0):
        """Make a run, an hour after the last one, by a clock that is some hours wrong."""
        self.hour += 1
        if kind == "boots":
            self.boot, self.booted = self.boot + 1, self.hour
            self.is_good = False
            return
        self.is_good = WORDS.get(kind, self.is_good)
        verb, found, left_out, complete = RUNS[kind]
        began = BEGAN + timedelta(hours=self.hour + clock_h)
        site = self.site.parent / "other/dc1" if kind.startswith("another") else self.site
        own: dict[str, Any] = {
            "state": found,
            "passed": 9,
            "failed": int(found == FAIL),
            "error": 0,
            "skipped": 0,
        }
        own |= {"roles_run": left_out} if verb == "apply" else {}
        if kind not in BOOTLESS:
            own |= {
                "boot_id": BOOT.format(self.boot),
                "uptime_s": 3600.0 * (self.hour - self.booted),
            }
        own |= {"complete": complete} if complete is not None else {}
        own |= {"error": 9} if kind == "unreachable" else {}
        data = {
            "schema": 1,
            "verb": verb,
            "site": str(site),
            "limit": "gpu02" if found is None else None,
            "started": began.isoformat(),
            "seconds": 60.0,
            "exit_code": {PASS: 0, "unchanged": 0, "changed": 0, FAIL: 1}.get(str(found), 4),
            "nodes": {} if found is None else {NODE: own},
        }
        if verb == "validate":
            data["checks"] = [FAULT | {"outcome": "failed"}] if found == FAIL else []
        if left_out is not None and verb == "validate":
            data["complete"] = {"fleet": bool(complete), "left_out": left_out}
        path = self.runs / f"{began:%Y%m%d-%H%M%S}-{verb}"
        path.mkdir(parents=True)
        (path / "results.json").write_text(json.dumps(data))

    def gate_takes_it(self):
        words = last_words(self.site, [NODE], self.runs)
        facts = {NODE: {"boot_id": BOOT.format(self.boot)}}
        return not preflight.run_state(words, [NODE]).findings and not preflight.other_boots(
            words, facts
        )


@given(st.lists(st.sampled_from([*RUNS]), min_size=1, max_size=9))
def test_gate_takes_a_node_whose_last_word_is_a_complete_pass(tmp_path_factory, kinds):
    fleet = Fleet(tmp_path_factory.mktemp("site"))
    for kind in kinds:
        fleet(kind)
    assert fleet.gate_takes_it() == fleet.is_good


KNOWN = [each for each in RUNS if each not in (*BOOTLESS, "boots")]


@given(
    st.lists(
        st.tuples(st.sampled_from(KNOWN), st.sampled_from((0.0, -5.5, 5.5))), min_size=1, max_size=9
    )
)
def test_order_of_several_controllers_in_one_boot_is_the_node_s(tmp_path_factory, runs):
    fleet = Fleet(tmp_path_factory.mktemp("site"))
    for kind, clock_h in runs:
        fleet(kind, clock_h)
    assert fleet.gate_takes_it() == fleet.is_good


@given(st.lists(st.sampled_from([each for each in RUNS if each != "boots"]), max_size=9))
def test_history_and_metrics_say_passed_for_the_same_nodes(tmp_path_factory, kinds):
    """Of `validate` alone: what `apply` did stands beside it, and of boots history knows none."""
    fleet = Fleet(tmp_path_factory.mktemp("site"))
    good = False
    for kind in ("complete, wrong", *kinds):
        fleet(kind)
        if RUNS[kind][0] == "validate":
            good = WORDS.get(kind, good)
    found = read_history(fleet.site, fleet.runs)
    assert (found.nodes[NODE]["validate"]["state"] == PASSED) == good
    (line,) = (
        each
        for each in metrics_text(found).splitlines()
        if each.startswith("rdmaprov_node_state{")
        and 'state="passed"' in each
        and 'verb="validate"' in each
    )
    assert line.endswith(" 1") == good


@pytest.mark.parametrize("kind", [each for each in RUNS if RUNS[each][0] == "validate"])
def test_fault_is_gone_by_a_complete_run_alone(tmp_path, kind):
    fleet = Fleet(tmp_path)
    fleet("complete, wrong")
    fleet(kind)
    is_word = kind in ("complete", "--limit to it")
    (seen,) = (each for each in read_history(fleet.site, fleet.runs).troubles)
    assert seen.is_there != is_word
    if kind.startswith("another") or RUNS[kind][1] is None:
        return
    first, second = sorted(fleet.runs.glob("*-validate"))
    found = read_pair(first, second, fleet.runs)
    assert any(not each.now for each in found.troubles) == is_word
    if RUNS[kind][1] != FAIL:
        assert (found.exit_code() == ExitCode.OK) == is_word


def test_witness_is_a_node_that_was_validated_whole(tmp_path):
    fleet = Fleet(tmp_path)
    accepted = {
        "schema": 1,
        "site": str(fleet.site),
        "exit_code": 0,
        "nodes": {NODE: {"findings": 0}},
    }
    path = fleet.runs / "20260102-000000-accept/results.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(accepted))
    fleet("-k")
    assert known_good(fleet.site, [NODE], fleet.runs) == set()
    fleet("complete")
    assert known_good(fleet.site, [NODE], fleet.runs) == {NODE}


def test_node_that_validate_could_not_reach_is_told_so_with_the_cause(tmp_path):
    fleet = Fleet(tmp_path)
    fleet("unreachable")
    path = max(fleet.runs.glob("*-validate/results.json"))
    data = json.loads(path.read_text())
    data["nodes"][NODE] |= {"boot_id": "", "uptime_s": 0.0}  # as validate writes it
    told = {"node": NODE, "message": f"{NODE}: ssh: no route to host. Try: ssh {NODE}"}
    data["checks"] = [{"test": "a", "outcome": "error", "also": ["b"], **told}]
    path.write_text(json.dumps(data))
    (found,) = preflight.run_state(last_words(fleet.site, [NODE], fleet.runs), [NODE]).findings
    why = f"{path.parent.name} could not reach it: ssh: no route to host"
    assert found.what == f"not measured: {why}"


def test_nodes_of_one_reason_are_one_line_with_one_command():
    names = [f"gpu{number:02}" for number in range(1, 13)]
    (found,) = preflight.run_state({}, names).findings
    assert found.text.startswith("gpu01, gpu02, gpu03, gpu04 and 8 more: unknown: not measured:")
    assert "Run: rdmaprov validate SITE;" in found.text
    words = {name: Word(PASSED, "20260301-000000-validate") for name in names[3:]}
    assert "--limit 'gpu[01-03]'" in preflight.run_state(words, names).findings[0].remedy


def test_command_is_for_the_nodes_of_the_limit():
    names = ["gpu01", "gpu02", "gpu17"]
    (found,) = preflight.run_state({}, names, is_limited=True).findings
    assert "validate SITE --limit 'gpu[01-02,17]'" in found.remedy
    words = {name: Word(PASSED, "r", "boot 1") for name in names}
    (found,) = preflight.other_boots(words, {key: {} for key in names}, is_limited=True)
    assert "validate SITE --limit 'gpu[01-02,17]'" in found.remedy
