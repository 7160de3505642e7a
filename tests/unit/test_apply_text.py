"""Changes merged, nodes grouped, secrets hidden, numbers of nodes understood."""

from __future__ import annotations

import pytest

from rdmaprov.apply import limits
from rdmaprov.apply.changes import change_lines
from rdmaprov.apply.events import Change
from rdmaprov.errors import UsageError
from rdmaprov.runs import groups
from rdmaprov.runs.masks import MASK, Mask
from rdmaprov.words import quantity


def change(layer, seen, wanted="9000", device="ens1"):
    return Change(layer, device, "MTU", seen, wanted)


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            [change("running", "1500"), change("configured", "none")],
            ["ens1 MTU 1500 → 9000 (running, configured)"],
        ),
        (
            [change("configured", "none")],
            ["ens1 MTU none → 9000 (configured)"],
        ),
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
        (["gpu02", "gpu01", "gpu03"], "gpu01-gpu03"),
        (["gpu09", "gpu10", "gpu11", "gpu13"], "gpu09-gpu11, gpu13"),
        (["gpu8", "gpu9", "gpu10"], "gpu8-gpu10"),
        (["a1", "a2"], "a1, a2"),
        (["gpu1", "gpu02", "gpu3"], "gpu1, gpu02, gpu3"),
        (["r1-n1.x", "r1-n2.x", "r1-n3.x", "r2-n4.x"], "r1-n1.x-r1-n3.x, r2-n4.x"),
        ([f"n{2 * i}" for i in range(9)], "n0, n2, n4, n6, n8, n10 and 3 more"),
        (["login"], "login"),
    ],
)
def test_names_are_folded(names, text):
    assert groups.fold_names(names) == text


def test_label_counts_all_and_names_some():
    assert groups.label(["a", "b"], 2) == "2 nodes"
    assert groups.label(["a", "b"], 3) == "2 nodes (a, b)"
    assert groups.label(["a"], 1) == "a"


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ({"a": "ok", "b": "bad", "c": "ok"}, "3 nodes: 2 passed, 1 failed (b)"),
        ({"a": "bad", "b": "bad"}, "2 nodes: 2 failed"),
        ({"a": "ok"}, "1 node: 1 passed"),
    ],
)
def test_states_are_counted_and_bad_nodes_named(states, text):
    assert groups.count_states(states, {"ok": "passed", "bad": "failed"}, ["bad"]) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes"), (1024, "1,024 nodes")]
)
def test_quantity_is_singular_or_plural(number, text):
    assert quantity(number, "node") == text


@pytest.mark.parametrize(
    ("secret", "text", "masked"),
    [
        ("hunter22", "said hunter22!", f"said {MASK}!"),
        ('quo"te\\d', 'in JSON "quo\\"te\\\\d"', f'in JSON "{MASK}"'),
        ("schlüssel", "as schl\\u00fcssel", f"as {MASK}"),
        ("hunter22", "aHVudGVyMjI=", MASK),
        ("-----BEGIN-----\nabcdefghij\n--", "a line: abcdefghij", f"a line: {MASK}"),
        ("one\ntwo", "one\\ntwo", MASK),
        ("7", "17 of 7 at x7", f"17 of {MASK} at x7"),
        ("", "nothing", "nothing"),
    ],
)
def test_secret_is_hidden_however_it_is_written(secret, text, masked):
    assert Mask([secret]).text(text) == masked


def test_longer_secret_goes_first_and_data_is_masked_within():
    mask = Mask(["abcd", "abcdefgh"])
    assert mask.data({"abcd": ["x abcdefgh", 3, None]}) == {"abcd": [f"x {MASK}", 3, None]}


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "", "0%", "101%", "10 %", "%"])
def test_wrong_serial_is_refused(text):
    with pytest.raises(UsageError, match=r"--serial must be at least 1 \(or 1% to 100%\)"):
        limits.parse_share("--serial", text, 1)


@pytest.mark.parametrize(
    ("most", "serial", "hosts", "stops", "goes_on"),
    [
        ("0", None, 64, 1, 0),
        ("3", None, 64, 4, 3),
        ("2", "10", 64, 3, 2),
        ("1", "3", 1000, 2, 1),
        ("1", "10%", 64, 2, 1),  # batches of 6
        ("5", "8", 3, 6, 3),  # a batch of 3 never has more
        ("25%", "8", 64, 3, 2),
    ],
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
