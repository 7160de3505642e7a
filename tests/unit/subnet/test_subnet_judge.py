"""Each fault of an InfiniBand subnet is found and named; what is healthy is not."""

import re

import pytest
from tests.tables import cases
from tests.unit.helpers.subnet_texts import DISCOVERY, ERRORS, MANAGERS, STATES, TABLES

from rdmaprov.subnet.judge import SubnetVerdict
from rdmaprov.subnet.problem import word


def to_hca(description):
    return description.startswith("(Channel")


def test_healthy_subnet_has_no_problem(texts):
    assessment = texts.judge()
    assert assessment.problems == []
    assert assessment.verdict == SubnetVerdict.HEALTHY
    assert assessment.loops == []
    ringx = assessment.loads["ringx"]
    assert ringx.max_over_mean() == 1
    assert ringx.worst.excess == 1
    assert ringx.idle() == 0
    assert assessment.loads["ring"].max_over_mean() == 8
    assert assessment.loads["ring"].worst.excess == 1


@pytest.mark.parametrize("name", [DISCOVERY, TABLES, STATES, ERRORS, MANAGERS])
@pytest.mark.parametrize("state", ["missing", "empty", "cut"])
def test_file_that_is_not_whole_is_not_verified(texts, name, state):
    path = texts.directory / name
    text = path.read_text()
    if state == "missing":
        path.unlink()
    else:
        path.write_text(text[: len(text) // 2] if state == "cut" else "")
    assessment = texts.judge()
    assert assessment.verdict != SubnetVerdict.HEALTHY
    assert [each for each in assessment.problems if each.part == name], assessment.problems


@pytest.mark.parametrize("state", ["missing", "empty"])
def test_counters_that_are_not_there_are_not_verified(texts, state):
    path = texts.directory / "perfquery/ports.txt"
    path.unlink()
    if state == "missing":
        path.parent.rmdir()
    assert texts.judge().verdict == SubnetVerdict.UNKNOWN


def test_switch_without_a_table_is_unknown(texts):
    whole = re.split(r"(?m)^(?=Unicast)", texts.read(TABLES))
    texts.write(TABLES, "".join(block for block in whole if "(spine-1):" not in block))
    assessment = texts.judge()
    assert assessment.verdict == SubnetVerdict.UNKNOWN
    assert [each.part for each in assessment.problems] == ["spine-1"]


def test_routes_over_one_spine_are_named_with_their_cost(texts):
    """Half of the destinations of every leaf leave by one cable to spine-1."""
    texts.route(
        lambda switch, lid, port, to: (
            9 if "leaf" in switch and port > 8 and lid % 2 == 0 and to_hca(to) else port
        )
    )
    assessment = texts.judge()
    assert assessment.verdict == SubnetVerdict.WRONG
    (problem,) = assessment.problems
    assert (word(problem), problem.part) == ("balance", "spine-1")
    ringx = assessment.loads["ringx"]
    assert ringx.worst.excess >= 4
    assert assessment.lost_share == 1 - 1 / ringx.worst.excess
    assert f"{assessment.lost_share:.0%} of its bandwidth" in problem.what
    assert assessment.loads["ringx"].busiest().port == 9


def test_link_at_a_lower_rate_than_its_peers_is_wrong(texts):
    texts.edit(DISCOVERY, r"4x HDR( - .*'leaf-p1-r0' - 'spine-1')", r"4x EDR\1")
    texts.edit(DISCOVERY, r"4x HDR( - .*'spine-1' - 'leaf-p1-r0')", r"4x EDR\1")
    assert set(texts.found()) == {("rate", "leaf-p1-r0", 9), ("rate", "leaf-p1-r0", 10)} or set(
        texts.found()
    ) == {("rate", "spine-1", 1), ("rate", "spine-1", 2)}


def test_hca_at_a_lower_width_is_wrong(texts):
    texts.edit(DISCOVERY, r"4x HDR( - .*'node003 mlx5_1' - )", r"1x HDR\1")
    texts.edit(DISCOVERY, r"4x HDR( - .* - 'node003 mlx5_1')", r"1x HDR\1")
    ((kind, name, port),) = texts.found()
    assert (kind, name, port) == ("rate", "leaf-p1-r1", 3)
    assert "node003 mlx5_1" in texts.judge().problems[0].what


def test_port_that_could_be_faster_is_wrong_unless_all_could(texts):
    texts.edit(STATES, r'("leaf-p1-r1" \(Could be 12X) \)', r"\1 Could be 106.25 Gbps)")
    lines = texts.read(STATES)
    assert texts.judge().verdict == SubnetVerdict.WRONG
    texts.write(STATES, lines.replace("Could be 12X )", "Could be 12X Could be 106.25 Gbps)"))
    assert texts.judge().verdict == SubnetVerdict.HEALTHY


def test_port_that_no_manager_activated_is_wrong(texts):
    texts.edit(STATES, r"(node003 mlx5_1.*Gbps) Active/", r"\1   Init/")
    assert ("port", "node003 mlx5_1", 1) in texts.found()


ERROR = cases(__file__, "error")
BLOCK = cases(__file__, "block")


def with_errors(texts, counter):
    texts.write(ERRORS, ERROR.format(counter=counter) + texts.read(ERRORS))
    return texts.found()


def test_errors_are_named_once_with_their_cable(texts):
    assert with_errors(texts, "[SymbolErrorCounter == 1234]") == [("errors", "leaf-p1-r0", 3)]
    assert "node003 mlx5_0" in texts.judge().problems[0].what


@pytest.mark.parametrize(
    "counter",
    ["[LinkDownedCounter == 2]", "[PortXmitWait == 99999]", "[PortRcvSwitchRelayErrors == 5000]"],
)
def test_few_errors_and_congestion_are_no_fault(texts, counter):
    assert with_errors(texts, counter) == []


@pytest.mark.parametrize(
    ("first", "last", "words", "is_bad"), cases(__file__, "errors_are_judged_by_rate")
)
def test_errors_are_judged_by_rate(texts, first, last, words, is_bad):
    texts.write("perfquery/1.txt", BLOCK.format(errors=first, words=words))
    if last:
        texts.write("perfquery/2.txt", BLOCK.format(errors=last, words=words))
    assert bool(with_errors(texts, "[SymbolErrorCounter == 1234]")) == is_bad


def swapped(texts, one, other):
    """Swap what two names stand for, in the discovery alone."""
    text = texts.read(DISCOVERY)
    pattern = re.compile(f"{re.escape(one)}|{re.escape(other)}")
    texts.write(DISCOVERY, pattern.sub(lambda found: {one: other, other: one}[found[0]], text))


def test_rails_on_each_other_s_leaves_are_named(texts):
    swapped(texts, "'node003 mlx5_0'", "'node003 mlx5_1'")
    found = texts.found()
    assert ("cabling", "node003 mlx5_0", 1) in found
    assert ("cabling", "node003 mlx5_1", 1) in found
    assert not [name for _, name, _ in found if name.startswith("node") and "003" not in name]


def test_nodes_without_a_device_or_a_name_are_no_fault(texts):
    """HCAs as the firmware names them: who is on the wrong leaf, nobody can say."""
    texts.edit(DISCOVERY, r"'node\d+ mlx5_\d'", "'MT4123 ConnectX6 Mellanox Technologies'")
    assert texts.judge().verdict == SubnetVerdict.HEALTHY


def test_missing_hca_is_named_with_its_leaf(texts):
    texts.gone("node003 mlx5_1")
    (problem,) = texts.judge().problems
    assert (word(problem), problem.part) == ("missing", "node003 mlx5_1")
    assert "expected on leaf-p1-r1" in problem.what


def test_missing_node_is_named_by_its_neighbours_and_one_that_never_was_there_is_not(texts):
    texts.gone("node016 mlx5_0", "node016 mlx5_1")
    assert texts.found() == []
    texts.gone("node003 mlx5_0", "node003 mlx5_1")
    assert texts.found() == [("missing", "node003", None)]


def test_missing_spine_is_named(texts):
    """Its routes are gone with it, as after a sweep of the manager."""
    texts.gone("spine-3")
    dead = (13, 14)
    texts.route(
        lambda switch, lid, port, _: 9 + lid % 4 if "leaf" in switch and port in dead else port
    )
    assert ("missing", "spine-3", None) in texts.found()
    assert texts.judge().verdict == SubnetVerdict.WRONG


def test_routes_into_a_dead_port_are_named(texts):
    """The spine went, and the manager has not swept since."""
    texts.gone("spine-3")
    found = texts.found()
    assert ("routes", "leaf-p1-r0", 13) in found
    assert ("missing", "spine-3", None) in found


def test_missing_cable_of_a_leaf_is_named(texts):
    for name in (DISCOVERY, STATES):
        lines = texts.read(name).splitlines(True)
        pair = re.compile(r"leaf-p1-r0.*spine-1|spine-1.*leaf-p1-r0")
        texts.write(name, "".join(line for line in lines if not pair.search(line)))
    texts.route(
        lambda switch, _, port, __: 11 if switch == "leaf-p1-r0" and port in (9, 10) else port
    )
    assert ("missing", "leaf-p1-r0", 9) in texts.found()


def test_hca_without_routes_is_named_with_its_lid(texts):
    texts.drop_entries("node003 mlx5_1")
    (problem,) = texts.judge().problems
    assert (word(problem), problem.part) == ("routes", "node003 mlx5_1")
    assert "has no route on" in problem.what


def test_switch_that_lacks_one_route_is_named(texts):
    texts.route(
        lambda switch, _, port, to: (
            None if switch == "leaf-p2-r0" and "'node003 mlx5_0'" in to else port
        )
    )
    (problem,) = texts.judge().problems
    assert (word(problem), problem.part) == ("routes", "leaf-p2-r0")
    assert "node003 mlx5_0" in problem.what


def test_route_to_the_wrong_hca_is_named(texts):
    texts.route(
        lambda switch, _, port, to: (
            4 if switch == "leaf-p1-r0" and "'node003 mlx5_0'" in to else port
        )
    )
    assert texts.found() == [("routes", "leaf-p1-r0", 4)]


def test_packets_that_go_round_are_named(texts):
    """spine-1 sends node003's packets back to the leaf that they came from."""
    texts.route(
        lambda switch, _, port, to: (
            9
            if switch == "leaf-p2-r0" and "'node003 mlx5_0'" in to
            else 5
            if switch == "spine-1" and "'node003 mlx5_0'" in to
            else port
        )
    )
    assert any("loop" in each.what for each in texts.judge().problems)


def leads_round(switch, _lid, port, to):
    """Routes between pods of rail 0 that go down and up again, four of them in a ring."""
    ring = {
        ("leaf-p1-r0", "node009 mlx5_0"): 9,  # spine-1, whose route goes down to leaf-p1-r1
        ("spine-1", "node009 mlx5_0"): 3,
        ("leaf-p1-r1", "node009 mlx5_0"): 11,  # spine-2
        ("leaf-p1-r1", "node010 mlx5_0"): 11,
        ("spine-2", "node010 mlx5_0"): 1,
        ("leaf-p1-r0", "node010 mlx5_0"): 9,
    }
    return next(
        (to_port for (at, hca), to_port in ring.items() if at == switch and f"'{hca}'" in to), port
    )


def test_credit_loop_is_named(texts):
    texts.route(leads_round)
    assessment = texts.judge()
    assert len(assessment.loops) == 1
    problem = next(each for each in assessment.problems if word(each) == "credit loop")
    for switch in ("leaf-p1-r0", "spine-1", "leaf-p1-r1", "spine-2"):
        assert switch in problem.what


SM = "sminfo: sm lid {lid} sm guid 0x{lid}, activity count 1 priority {lid} state {state}\n"


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ([(1, "3 SMINFO_MASTER"), (5, "2 SMINFO_STANDBY")], "healthy"),
        ([(1, "3 SMINFO_MASTER"), (1, "3 SMINFO_MASTER")], "healthy"),
        ([(1, "3 SMINFO_MASTER"), (5, "3 SMINFO_MASTER")], "wrong"),
        ([(1, "2 SMINFO_STANDBY")], "wrong"),
    ],
)
def test_one_master_is_needed(texts, said, verdict):
    texts.write(MANAGERS, "".join(SM.format(lid=lid, state=state) for lid, state in said))
    assert texts.judge().verdict == verdict


def test_manager_that_does_not_answer_is_wrong(texts):
    texts.write(MANAGERS, "sminfo: iberror: failed: query\n")
    assert texts.found() == [("manager", "subnet manager", None)]


def test_lid_of_two_ports_is_wrong(texts):
    texts.edit(DISCOVERY, r"(CA\s+)\d+(\s+1 0x\w+ 4x HDR - .*'node003 mlx5_1')", r"\g<1>1\2")
    assert any(" belongs to " in each.what for each in texts.judge().problems)


def test_adapters_inside_switches_are_no_nodes(texts):
    """An aggregation node (SHARP) does not make a spine a leaf."""
    line = next(line for line in texts.read(DISCOVERY).splitlines() if "'spine-1'\n" in line + "\n")
    parts = line.split()
    own = f"SW {parts[1]} {parts[2]} {parts[3]}"
    other = "CA 99 1 0x0000000000999999"
    name = "Mellanox Technologies Aggregation Node"
    texts.write(
        DISCOVERY,
        texts.read(DISCOVERY).replace(line + "\n", "")
        + f"{own} 4x HDR - {other} ( 'spine-1' - '{name}' )\n"
        + f"{other} 4x HDR - {own} ( '{name}' - 'spine-1' )\n",
    )
    assert texts.judge().problems == []


@pytest.mark.parametrize(("top", "is_bad"), [("0x0", True), ("0x40", False)])
def test_last_lid_that_dump_fts_leaves_out_is_no_fault(texts, top, is_bad):
    """It prints no LID that begins a block of 64, where that is the last of all."""
    own = next(
        line.split()[1]
        for line in texts.read(DISCOVERY).splitlines()
        if "( 'node016 mlx5_1'" in line
    )
    texts.edit(DISCOVERY, rf"(CA\s+){own}(\s+1 0x\w+ 4x HDR - .*'node016 mlx5_1')", r"\g<1>64\2")
    texts.edit(TABLES, r"\[0x0-0x\w+\]", f"[0x0-{top}]")
    assert bool(texts.found()) == is_bad


@pytest.mark.parametrize(("port", "is_bad"), [(127, True), (128, False)])
def test_routes_by_ports_that_dump_fts_does_not_print_are_inferred(texts, port, is_bad):
    """A spine's second cable to a leaf is on a high port, and its table has no route by it."""
    guid = re.findall(r"guid (0x\w+) \(spine-1\)", texts.read(TABLES))[0]
    texts.edit(DISCOVERY, rf"(SW\s+\d+\s+)8 {guid}", rf"\g<1>{port} {guid}")
    texts.edit(STATES, rf'({guid} "\s+spine-1"\s+\d+\s+)8\[', rf"\g<1>{port}[")
    texts.route(lambda switch, _, out, __: None if (switch, out) == ("spine-1", 8) else out)
    assert bool(texts.found()) == is_bad
