"""Changes merged, nodes grouped, secrets hidden, numbers of nodes understood."""

import time
from pathlib import Path

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import cases

from rdmaprov.apply import limits
from rdmaprov.apply.changes import change_lines
from rdmaprov.apply.events import Change
from rdmaprov.errors import UsageError
from rdmaprov.runs import groups
from rdmaprov.runs.masks import MASK, Mask
from rdmaprov.words import quantity, some


def change(layer, seen, wanted="9000", device="ens1"):
    return Change(layer, device, "MTU", seen, wanted)


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            [change("running", "1500"), change("configured", "none")],
            ["ens1 MTU 1500 → 9000 (running, configured)"],
        ),
        ([change("configured", "none")], ["ens1 MTU none → 9000 (configured)"]),
        (
            [change("running", "1500"), change("configured", "4200")],
            ["ens1 MTU 1500 → 9000 (running)", "ens1 MTU 4200 → 9000 (configured)"],
        ),
        (
            [change("running", "1500"), change("running", "1500", device="ens2")],
            ["ens1 MTU 1500 → 9000 (running)", "ens2 MTU 1500 → 9000 (running)"],
        ),
        ([change("running", "", "")], ["ens1 MTU (empty) → (empty) (running)"]),
    ],
)
def test_layers_are_merged_where_they_agree(changes, lines):
    assert change_lines(changes) == lines


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["gpu02", "gpu01", "gpu03"], "gpu[01-03]"),
        (["gpu09", "gpu10", "gpu11", "gpu13"], "gpu[09-11,13]"),
        (["gpu8", "gpu9", "gpu10"], "gpu[8-10]"),
        (["gpu098", "gpu099", "gpu100"], "gpu[098-100]"),
        (["a1", "a2", "a2"], "a[1-2]"),
        (["gpu1", "gpu02", "gpu3"], "gpu[1,3,02]"),
        (["r1-n1.x", "r1-n2.x", "r1-n3.x", "r2-n4.x"], "r1-n[1-3].x,r2-n4.x"),
        ([f"n{2 * i}" for i in range(9)], "n[0,2,4,6,8,10] and 3 more"),
        ([f"n{i}" for i in range(300) if i % 50], "n[1-49,51-99,101-149,151-199,201-249,251-299]"),
        (
            [f"n{i}" for i in range(301) if i % 42],
            "n[1-41,43-83,85-125,127-167,169-209,211-251] and 47 more",
        ),
        (["login", "10.0.0.2", "10.0.0.1"], "10.0.0.[1-2],login"),
        ([], ""),
    ],
)
def test_names_are_folded(names, text):
    assert groups.fold_names(names) == text


@pytest.mark.parametrize(
    "name",
    ["a,b", "a&b", "a!b", "a^b", "@all", "a*", "a?", "a%s", "a b", "x[1-2]", "fe80::1",
     "gpu²", "gpu٣"],
)  # fmt: skip
def test_name_with_odd_characters_is_left_as_it_is(name):
    assert groups.fold_names([name]) == name
    assert groups.fold_names(["gpu1", name, "gpu2"]) == f"gpu[1-2],{name}"


@given(st.sets(st.from_regex(r"[a-c]{1,2}-?[0-9]{0,3}(\.x[0-9]?)?", fullmatch=True), max_size=20))
def test_folded_names_are_those_names_to_clustershell(names):
    text, more, rest = groups.fold_names(names).partition(" and ")
    shown = set(NodeSet(text, resolver=RESOLVER_NOGROUP))
    assert shown <= names
    assert len(names - shown) == (int(rest.removesuffix(" more")) if more else 0)
    assert groups.fold_names(sorted(names, reverse=True)) == groups.fold_names(sorted(names))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([f"gpu{n:05}" for n in range(10_000)], "gpu[00000-09999]"),
        ([f"gpu{n}" for n in range(0, 20_000, 2)], "gpu[0,2,4,6,8,10] and 9994 more"),
        ([f"r{n // 100:02}-{n % 100:02}" for n in range(10_000)], "r[00-99]-[00-99]"),
    ],
    ids=["a row", "every other one", "racks"],
)
def test_ten_thousand_names_are_folded_at_once(names, text):
    began = time.process_time()
    assert groups.fold_names(names) == text
    assert time.process_time() - began < 2


def test_label_counts_all_and_names_some():
    assert groups.label(["a", "b"], 2) == "2 nodes"
    assert groups.label(["a", "b"], 3) == "2 nodes (a,b)"
    assert groups.label(["a"], 1) == "a"


@pytest.mark.parametrize(
    ("states", "text"), cases(__file__, "states_are_counted_and_bad_nodes_named")
)
def test_states_are_counted_and_bad_nodes_named(states, text):
    assert groups.count_states(states, {"ok": "passed", "bad": "failed"}, ["bad"]) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes"), (1024, "1,024 nodes")]
)
def test_quantity_is_singular_or_plural(number, text):
    assert quantity(number, "node") == text


@pytest.mark.parametrize(
    ("secret", "text", "masked"), cases(__file__, "secret_is_hidden_however_it_is_written")
)
def test_secret_is_hidden_however_it_is_written(secret, text, masked):
    assert Mask([secret]).text(text) == masked


def test_longer_secret_goes_first_and_data_is_masked_within():
    mask = Mask(["abcd", "abcdefgh"])
    assert mask.data({"abcd": ["x abcdefgh", 3, None]}) == {"abcd": [f"x {MASK}", 3, None]}


@pytest.mark.parametrize(
    ("text", "shown"), cases(__file__, "command_for_the_user_has_the_paths_of_site_and_run")
)
def test_command_for_the_user_has_the_paths_of_site_and_run(text, shown):
    mask = Mask([], Path("my site"))
    mask.run = Path("runs/1-accept")
    assert mask.shown(text) == shown
    assert mask.data([text]) == [shown]
    assert mask.text(text) == text


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "", "0%", "101%", "10 %", "%"])
def test_wrong_serial_is_refused(text):
    with pytest.raises(UsageError, match=r"--serial must be at least 1 \(or 1% to 100%\)"):
        limits.parse_share("--serial", text, 1)


@pytest.mark.parametrize(
    ("most", "serial", "hosts", "stops", "goes_on"),
    cases(__file__, "failures_that_stop_are_as_many_as_was_said"),
)
def test_failures_that_stop_are_as_many_as_was_said(most, serial, hosts, stops, goes_on):
    batch = limits.parse_share("--serial", serial, 1) if serial else None
    percentage = limits.max_fail_percentage(
        limits.parse_share("--max-failures", most, 0), batch, hosts
    )
    size = min(batch.of(hosts), hosts) if batch else hosts

    def stopped(failures):  # ansible/plugins/strategy/linear.py
        return failures / size > percentage / 100.0

    assert not stopped(goes_on)
    assert stopped(stops) or stops > size


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, ""), (3, "0; 1; 2"), (4, "0; 1; 2 and 1 more"), (2003, "0; 1; 2 and 2,000 more")],
)
def test_list_names_some_and_counts_the_rest(count, text):
    assert some(map(str, range(count)), 3, "; ") == text
