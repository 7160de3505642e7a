"""What a path must reach follows from the wire, the slot and the uplinks."""

import pytest

from rdmaprov.perftest.expected import (
    BAD_SHARE_OF_CEILING,
    BAD_SHARE_OF_GOOD,
    GPU_SHARE,
    SlotLimit,
    Wire,
    least_sentence,
    path_ceiling,
)

MIB = 1 << 20


def test_headers_are_those_of_the_link():
    assert (Wire(400).header_bytes, Wire(400, "infiniband").header_bytes) == (82, 26)


def test_a_write_of_one_packet_has_one_reth():
    assert Wire(400).payload_share(4096) == pytest.approx(4096 / (4096 + 82 + 16))
    assert Wire(400).payload_share(8192) == pytest.approx(8192 / (8192 + 2 * 82 + 16))


def test_a_small_mtu_costs_headers():
    shares = [Wire(400, mtu=mtu).payload_share(MIB) for mtu in (1024, 2048, 4096)]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(0.926, abs=0.001)
    assert shares[2] == pytest.approx(0.980, abs=0.001)


@pytest.mark.parametrize(
    ("gbps", "gb_s"), [(40, 4.0), (56, 56 * 64 / 66 / 8), (100, 12.5), (200, 25.0), (400, 50.0)]
)
def test_the_data_rate_of_infiniband_is_after_encoding(gbps, gb_s):
    assert Wire(gbps, "infiniband").line_gb_s == pytest.approx(gb_s)


# Azure/azurehpc-health-checks, conf/: what healthy nodes reach with ib_write_bw, Gb/s.
@pytest.mark.parametrize(
    ("gbps", "healthy"), [(100, 95), (200, 180), (200, 190), (400, 390), (400, 380), (400, 360)]
)
def test_a_published_threshold_is_between_the_least_and_the_ceiling(gbps, healthy):
    ceiling = path_ceiling(Wire(gbps, "infiniband"), 64 << 10)
    assert BAD_SHARE_OF_CEILING * ceiling.gb_s <= healthy / 8 <= ceiling.gb_s


def test_shares_are_in_order():
    assert GPU_SHARE <= BAD_SHARE_OF_CEILING < BAD_SHARE_OF_GOOD < 1


def test_a_slot_limits_if_it_carries_less():
    line = path_ceiling(Wire(400))
    assert path_ceiling(Wire(400), slot=SlotLimit(55.2, "the slot of 17:00.0")) == line
    half = path_ceiling(Wire(400), slot=SlotLimit(27.6, "the slot of 17:00.0 (32 GT/s x8)"))
    assert half.gb_s == 27.6
    assert "the slot of 17:00.0 (32 GT/s x8) carries 27.6 GB/s, less than" in half.derivation


@pytest.mark.parametrize(
    ("crossing", "share"), [(0.0, 1.0), (0.5, 1.0), (0.75, 1 / 1.5), (1.0, 0.5)]
)
def test_uplinks_are_shared_by_those_that_cross(crossing, share):
    line = path_ceiling(Wire(400)).gb_s
    found = path_ceiling(Wire(400), oversubscription=2.0, crossing=crossing)
    assert found.gb_s == pytest.approx(share * line)
    assert ("oversubscription of 2" in found.derivation) == (share < 1)


def test_the_sentence_says_how_it_follows():
    assert least_sentence(path_ceiling(Wire(400))) == (
        "400 Gb/s carry 50 GB/s, of which 98.0 % is payload (82 B of headers for each 4096 B): "
        "49 GB/s. The best paths must reach 90 % of it, 44.1 GB/s, and each 93 % of what good "
        "paths of its kind reach."
    )
