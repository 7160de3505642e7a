"""LLDP announcements, parsed: public captures, hostile bytes, and what daemons print."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis.strategies import binary, lists, sampled_from, text, tuples
from tests.validate.switches import announced

from rdmaprov.facts import CouldNotTell, lldp_dcbx
from rdmaprov.facts.lldp_daemons import parse_lldpad, parse_lldpd
from rdmaprov.facts.lldp_dcbx import AnnouncedApplication, AnnouncedPfc, OddUnit
from rdmaprov.facts.lldp_unit import LldpNeighbor, parse_frame, parse_unit
from rdmaprov.facts.neighbors import LLDPCTL

DIRECTORY = Path(__file__).parents[2] / "fixtures/lldp"
FRAMES = {
    name: bytes.fromhex(digits)
    for name, digits in map(str.split, (DIRECTORY / "frames.txt").read_text().splitlines())
}
GOOD = FRAMES["big-switch"]


def unit(*tlvs):
    """Return a unit of a chassis, a port and a time to live, then these TLVs and the end."""
    parts = [(1, b"\7leaf"), (2, b"\5swp1"), (3, b"\0\x78"), *tlvs, (0, b"")]
    return b"".join((kind << 9 | len(value)).to_bytes(2, "big") + value for kind, value in parts)


def only(found, netdev):
    (seen,) = found[netdev]
    assert isinstance(seen, LldpNeighbor)
    return seen


def ieee(subtype, value):
    return 127, b"\x00\x80\xc2" + bytes([subtype]) + value


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("cisco-c3560", {"system": "S2.cisco.com", "port": "Uplink to S1",
                         "port_description": "GigabitEthernet0/13", "forwards": True}),
        ("cisco-cat9k", {"system": "cisco-bt-switch", "port": "Gi1/0/2", "forwards": True,
                         "port_description": "GigabitEthernet1/0/2"}),
        ("cisco-sg200", {"chassis": "00:35:35:35:35:35", "port": "g1", "system": ""}),
        ("big-switch", {"system": "leaf0b", "port": "leaf0b-eth10",
                        "pfc": AnnouncedPfc(False, (4,)),
                        "applications": (AnnouncedApplication(4, 4, 3260),)}),
        ("pfc", {"pfc": AnnouncedPfc(False, (2, 4, 5)), "forwards": None}),
        ("connectx-firmware", {"port_description": "ConnectX-4 Lx, 25G/10G/1G SFP", "ttl_s": 48,
                               "system": ""}),
        ("lldpd-host", {"forwards": False}),
        ("fuzzer", {"system": "defensics", "speaks_cee": True}),
    ],
)  # fmt: skip
def test_captured_frame_is_read(name, wanted):
    seen = parse_frame(FRAMES[name])
    assert {key: getattr(seen, key) for key in wanted} == wanted


def test_ets_of_a_capture():
    seen = parse_frame(FRAMES["ets"])
    assert seen.ets is not None
    assert seen.ets.classes == (15, 4, 1, 1, 15, 4, 1, 4)
    assert seen.ets.percent == (0, 50, 0, 0, 50, 0, 0, 0)
    assert seen.ets.services[:3] == ("strict", "ets", "strict")


@pytest.mark.parametrize("name", ["loop-2", "no-beginning", "frame-size-cut", "order"])
def test_hostile_capture_is_odd(name):
    with pytest.raises(OddUnit):
        parse_frame(FRAMES[name])


def test_cut_frame_is_odd_wherever_it_is_cut():
    assert [length for length in range(len(GOOD) - 1) if not is_odd(GOOD[:length])] == []


def is_odd(frame):
    try:
        parse_frame(frame)
    except OddUnit:
        return True
    return False


@pytest.mark.parametrize(
    ("tlv", "why"),
    [
        ((127, b"\x00\x12\x0f"), "TLV of an organization is too short"),
        ((3, b"\0"), "ttl_s stands twice"),
        ((7, b"\0"), "capabilities have 1 bytes"),
        ((1, b"\7other"), "chassis stands twice"),
        ((5, bytes(256)), "a text has 256 bytes"),
    ],
)
def test_wrong_length_of_a_basic_tlv_is_odd(tlv, why):
    with pytest.raises(OddUnit, match=why):
        parse_unit(unit(tlv))


@pytest.mark.parametrize(
    ("tlv", "what", "why"),
    [
        (ieee(11, b"\x08"), "PFC", "it has 1 bytes, not 2"),
        (ieee(11, b"\x08\x08\x00"), "PFC", "it has 3 bytes, not 2"),
        (ieee(9, bytes(20)), "ETS", "it has 20 bytes, not 21"),
        (ieee(9, bytes(5) + b"\x65" + bytes(15)), "ETS", "a class has 101 %"),
        (ieee(12, bytes(3)), "application priorities", "it has 3 bytes, not 1 and 3 for each"),
        (ieee(12, b""), "application priorities", "it has 0 bytes, not 1 and 3 for each"),
        ((127, b"\x00\x12\x0f\x04\x24"), "largest frame", "it has 1 bytes, not 2"),
    ],
)
def test_wrong_length_of_an_organizations_tlv_spoils_no_other(tlv, what, why):
    seen = parse_unit(unit((5, b"leaf01"), tlv))
    assert (seen.system, seen.odd) == ("leaf01", ((what, why),))


def test_value_that_stands_twice_is_odd():
    seen = parse_unit(unit(ieee(11, b"\x08\x08"), ieee(11, b"\x08\x10")))
    assert seen.odd == (("PFC", "it stands twice"),)


def test_text_of_a_stranger_is_one_printable_line():
    assert parse_unit(unit((5, b"leaf\x1b[31m\n\xff\0\0"))).system == r"leaf\x1b[31m\n\xff"


@given(binary(max_size=1500))
@example(bytes(1500))
@example(b"\xff" * 1500)
def test_any_bytes_are_a_neighbour_or_odd(garbage):
    for read in (parse_frame, parse_unit):
        try:
            assert isinstance(read(garbage), LldpNeighbor)
        except OddUnit:
            continue


TLVS = lists(tuples(sampled_from([*range(1, 10), 127]), binary(max_size=40)), max_size=12)
OUIS = [b"\x00\x80\xc2", b"\x00\x12\x0f", b"\x00\x1b\x21", b"\x00\x12\xbb"]
ORGANIZATIONS = lists(tuples(sampled_from(OUIS), binary(min_size=1, max_size=30)), max_size=8)


@given(TLVS, ORGANIZATIONS)
def test_any_tlvs_are_a_neighbour_or_odd(tlvs, organizations):
    theirs = [(127, oui + value) for oui, value in organizations]
    try:
        seen = parse_unit(unit(*tlvs, *theirs))
    except OddUnit:
        return
    assert (seen.chassis, seen.port, seen.ttl_s) == ("leaf", "swp1", 120)
    assert seen.system.isprintable()


def test_lldpd_that_knows_dcbx():
    found = parse_lldpd((DIRECTORY / "lldpctl-1.0.16.json").read_text(), LLDPCTL)
    assert list(found) == ["rail0", "rail1"]
    seen = only(found, "rail1")
    assert (seen.system, seen.port, seen.max_frame_bytes) == ("leaf-r1", "swp1", 9216)
    assert seen.pfc == AnnouncedPfc(False, (3,))
    assert seen.ets is not None
    assert seen.ets.classes == (0, 0, 0, 3, 0, 0, 6, 0)
    assert seen.ets.percent == (50, 0, 0, 50, 0, 0, 0, 0)
    assert seen.ets.services[6] == "strict"
    assert seen.applications == (
        AnnouncedApplication(3, lldp_dcbx.UDP_PORT, 4791),
        AnnouncedApplication(3, lldp_dcbx.DSCP, 26),
        AnnouncedApplication(6, lldp_dcbx.DSCP, 48),
    )


HEALTHY = announced({"ens1": ("leaf-r0", "swp1")})


def test_made_up_lldpd_is_like_the_real_one():
    seen = only(parse_lldpd(HEALTHY, LLDPCTL), "ens1")
    real = only(parse_lldpd((DIRECTORY / "lldpctl-1.0.16.json").read_text(), LLDPCTL), "rail0")
    assert (seen.pfc, seen.ets, seen.applications) == (real.pfc, real.ets, real.applications)


@pytest.mark.parametrize("garbage", ["", "{", "[]", "<html>", '{"lldp": 1}', "[" * 100_000, "1"])
def test_lldpd_that_prints_something_else_is_unknown(garbage):
    with pytest.raises(CouldNotTell, match="lldpctl -f json0: "):
        parse_lldpd(garbage, LLDPCTL)


def replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def places(value, path=()):
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


@pytest.mark.parametrize("path", list(places(json.loads(HEALTHY))), ids=str)
def test_any_value_of_lldpd_may_be_of_another_kind(path):
    for new in (None, 7, True, "x", [], {}, ["x"], {"value": 7}, "zz,00", "9" * 5000):
        text = json.dumps(replaced(json.loads(HEALTHY), path, new))
        try:
            found = parse_lldpd(text, LLDPCTL)
        except CouldNotTell:
            continue
        for heard in found.values():
            assert all(isinstance(each, (LldpNeighbor, OddUnit)) for each in heard)


def test_lldpad_prints_whole_units():
    found = parse_lldpad((DIRECTORY / "lldptool-1.1.txt").read_text())
    assert list(found) == ["r0"]  # r1 has no neighbour
    seen = only(found, "r0")
    assert (seen.system, seen.port, seen.pfc) == ("leaf01", "swp1", AnnouncedPfc(False, (3,)))
    assert dict(seen.odd) == {"application priorities": "it has 8 bytes, not 1 and 3 for each"}


@given(text(max_size=200))
@example("R00C3010000000202r00000007f02")
@example("R00C30100000002ffr00000007f0207")
@example("R00C3010000000202r00000007fzz")
def test_lldpad_that_prints_something_else_is_odd_or_nothing(line):
    for heard in parse_lldpad(line).values():
        assert all(isinstance(each, (LldpNeighbor, OddUnit)) for each in heard)
