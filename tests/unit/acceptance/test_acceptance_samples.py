"""A sampler's file is data of a stranger: it has the right shape, or its node has no samples."""

from __future__ import annotations

import gzip
import json
import zlib

import pytest
from tests.unit.helpers import made_samples

from rdmaprov.acceptance.samples import packed
from rdmaprov.acceptance.samples.digest import bin_edges, digest_samples, into_bins
from rdmaprov.acceptance.samples.fleet import collect_samples
from rdmaprov.acceptance.samples.packed import parse_samples
from rdmaprov.acceptance.samples.track import rail_track
from rdmaprov.boundary import OddAnswer

STEADY = made_samples.rails([50.0] * 20, [50.0] * 20)


def unpacked(**changes):
    head, _, rest = gzip.decompress(made_samples.pack(STEADY)).partition(b"\n")
    return json.loads(head) | changes, rest


def again(head, rest):
    return gzip.compress(json.dumps(head).encode() + b"\n" + rest)


def test_words_of_four_bytes_become_rates():
    track = rail_track(parse_samples(made_samples.pack(STEADY), 2), 1)
    assert track is not None
    assert track.sent == pytest.approx([50.0] * 20)
    assert track.ends_s[-1] == pytest.approx(2.0)


def test_rail_without_rdma_counters_has_those_of_its_network_device():
    columns = {"0/netdev.tx_bytes": [10**8] * 9, "0/netdev.rx_bytes": [0] * 9}
    track = rail_track(parse_samples(made_samples.pack(columns), 1), 0)
    assert track is not None
    assert track.sent == pytest.approx([1.0] * 9)


def test_counter_that_counts_nothing_gives_way_to_one_that_does():
    columns = {"0/netdev.tx_bytes": [10**8] * 9, "0/netdev.rx_bytes": [0] * 9}
    still = ["0/port.port_xmit_data", "0/port.port_rcv_data"]
    track = rail_track(parse_samples(made_samples.pack(columns, still=still), 1), 0)
    assert track is not None
    assert track.sent == pytest.approx([1.0] * 9)


def test_rail_that_was_read_and_sent_nothing_is_known():
    still = ["0/port.port_xmit_data", "0/port.port_rcv_data"]
    node = parse_samples(made_samples.pack({}, 9, still=still), 2)
    track = rail_track(node, 0)
    assert track is not None
    assert track.sent == [0.0] * 9
    assert rail_track(node, 1) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "incomplete"),
        (b"plain text", "no gzip"),
        (made_samples.pack(STEADY)[:-9], "incomplete"),
        (made_samples.pack(STEADY) + b"more", "incomplete"),
        (b"\0" * (packed.MOST_PACKED + 1), "exceed 512 KiB"),
        (gzip.compress(b"\0" * (packed.MOST_INFLATED + 1)), "exceed 32 MiB"),
        (gzip.compress(b"no line", mtime=0), "no head"),
        (gzip.compress(b'{"wall": 1}\n', mtime=0), "shape"),
        (made_samples.pack({"2/x": [1]}), "not asked for"),
        (made_samples.pack({"0/x": [1]}, still=["0/x"]), "twice"),
        (made_samples.pack({"0/x": [1]}, times=[0]), "time"),
        (made_samples.pack({"0/x": [1] * 2}, times=[43_200_000_001] * 2, lasted_us=1), "time"),
        (made_samples.pack({"0/x y": [1]}), "columns/0"),
        (made_samples.pack({"0/../x": [1]}), "columns/0"),
        (made_samples.pack(STEADY, cpu_s=-1), "cpu_s"),
        (made_samples.pack(STEADY, extra=1), "shape"),
        (made_samples.pack(STEADY, wall=float("nan")), "wall/0"),
    ],
)
def test_odd_file_is_refused(data, why):
    with pytest.raises(OddAnswer, match=why):
        parse_samples(data, 2)


def test_columns_must_fill_the_file():
    head, rest = unpacked()
    assert parse_samples(again(head, rest), 2).lasted_s == pytest.approx(2.0)
    for wrong in (rest[:-8], rest + b"\0" * 8):
        with pytest.raises(OddAnswer, match="incomplete"):
            parse_samples(again(head, wrong), 2)


def test_small_file_that_inflates_without_end_is_not_inflated():
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(bomb.compress(b"\0" * (1 << 20)) for _ in range(200)) + bomb.flush()
    assert len(data) < packed.MOST_PACKED
    with pytest.raises(OddAnswer, match="exceed 32 MiB"):
        parse_samples(data, 2)


def test_rate_beyond_any_port_is_refused():
    data = made_samples.pack(made_samples.rails([20_000.0] * 5))
    with pytest.raises(OddAnswer, match="GB/s"):
        digest_samples("n0", data, 1, together=True)


def test_odd_and_absent_files_are_missing_nodes():
    files = {"n0": made_samples.pack(STEADY), "n1": b"", "n2": b"odd"}
    fleet = collect_samples(files, dict.fromkeys(files, 2), together=True)
    assert [node.node for node in fleet.nodes] == ["n0"]
    assert sorted(fleet.missing) == ["n1", "n2"]


def test_bins_share_out_what_lies_between_reads():
    columns = made_samples.rails([8.0, 0.0, 8.0, 8.0])
    track = rail_track(parse_samples(made_samples.pack(columns), 1), 0)
    assert track is not None
    # Time 0 lies in the middle of the first bin, which is not whole, and nor is the last.
    edges = bin_edges(track.ends_s, offset=0.05, step=0.1, bins=5)
    found = list(into_bins(track, edges, step=0.1, bins=5))
    assert found[1:4] == pytest.approx([4.0, 4.0, 8.0])
    assert [str(value) for value in (found[0], found[4])] == ["nan", "nan"]
