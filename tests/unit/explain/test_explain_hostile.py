"""Texts from strangers: no code of a pickle runs, and time, memory and output stay bounded."""

import json
import pickle
import resource
import time

import pytest
from tests.tables import cases

from rdmaprov.exit_codes import ExitCode
from rdmaprov.explain import model as given_module
from rdmaprov.explain import safe_pickle
from rdmaprov.explain.explain import explain_texts
from rdmaprov.explain.model import GivenText, read_given, worst
from rdmaprov.explain.safe_pickle import UnsafePickleError, load_plain

DUMP = {"version": "2.10", "pg_config": {}, "entries": []}
MIB = 1 << 20


class Runs:
    """An object whose pickle runs a program."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return (open, (str(self.file), "w"))


def laughs(depth):
    """Return data of a few hundred bytes that stand for 9 ** depth parts."""
    found: list[object] = []
    for _ in range(depth):
        found = [found] * 9
    return found


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (pickle.dumps({**DUMP, "x": b"bytes of 3"}, protocol=3), "operation"),
        (pickle.dumps(laughs(4), protocol=2), "too large or too deep"),
        (pickle.dumps([[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]], protocol=2), "too deep"),
        (b"\x80\x02]r\xff\xff\xff\x7f.", "numbers its memory"),
        (b"\x80\x02" + b"N" * 2000 + b".", "too many"),
        (b"\x80\x02X\xff\xff\xff\x7fpg_config", "damaged or cut off"),
        (b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7f", "damaged or cut off"),
        (b"\x80\x02}q\x00(", "damaged or cut off"),
        (b"\x80\x02h\x07.", "damaged"),
        (b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", "GLOBAL"),
        (b"\x80\x02X\x01\x00\x00\x00aQ.", "BINPERSID"),
    ],
)
def test_pickle_that_is_no_plain_data_is_refused(data, why, monkeypatch):
    monkeypatch.setattr(safe_pickle, "_MOST_OPERATIONS", 1000)
    monkeypatch.setattr(safe_pickle, "_MOST_PARTS", 1000)
    with pytest.raises(UnsafePickleError, match=why):
        load_plain(data)


def test_no_code_of_a_pickle_runs(tmp_path):
    mark = tmp_path / "mark"
    data = pickle.dumps({**DUMP, "entries": [Runs(mark)]}, protocol=2)
    (shown,) = explain_texts([GivenText("rank_0", data)])
    assert (shown.input, shown.code) == ("flight-recorder", ExitCode.UNKNOWN)
    assert not mark.exists()


def test_plain_pickle_is_read():
    assert load_plain(pickle.dumps(DUMP, protocol=2)) == DUMP


LONG = b"# size count type " * 50_000
HOSTILE = {
    "newlines": b"\n" * (30 * MIB),
    "spaces": b"GPU0" + b" " * MIB + b"\nhca_id: a\n",
    "one long line": LONG,
    "table of one long line": b"# nThread 1 nGpus 1 minBytes 8\n" + LONG,
    "columns": b"# nThread 1 nGpus 1 minBytes 8\n#  size count " + b"busbw " * 100_000,
    "rows": b"# nThread 1 nGpus 1 minBytes 8\n#  size count type busbw #wrong\n"
    + b" 8 2 float 1.0 0\n" * 60_000,
    "a number of digits": b"# nThread 1 nGpus 1\n# Out of bounds values : "
    + b"9" * MIB
    + b" FAILED",
    "matrix": b"\tGPU0\tCPU Affinity\n" + b"GPU0\t X \n" * 100_000,
    "names": b"\t" + b"\t".join(b"GPU%d" % n for n in range(20_000)) + b"\tCPU Affinity\nGPU0\t X ",
    "ports": b"hca_id: a\n" + b"\tport: 1\n\tstate: PORT_DOWN (1)\n" * 30_000,
    "devices": b"".join(b"CA 'm%d'\n\tPort 1:\n\t\tState: Down\n" % n for n in range(20_000)),
    "perftest": b" #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec]\n"
    + b" 8 5 0.0 0.0\n" * 50_000,
    "perftest without a row": b" #bytes #iterations\n" + b"\n\t" * (MIB // 4),
    "json in brackets": b'{"pg_config":' + b"[" * MIB,
    "json of many parts": b'{"pg_config": {}, "entries": [' + b"{}," * 200_000 + b"{}]}",
    "ras": b"Job summary\n=====\nDEAD\n" + b"  Process 1 on node a managing GPU 0\n" * 20_000,
    "ras json": b'{"communicators_count": 1, "communicators": [{"ranks": ['
    + b'{"rank": 1},' * 100_000
    + b"{}]}]}",
    "ras json cut off": b'{"communicators_count": 1, "communicators": ['
    + b'"nvml_dev": 1 \n' * 99_999,
    "errors of ports": b'Errors for "a"\n'
    + b"   GUID 0x1 port 1: [SymbolErrorCounter == 99]\n" * 9_999,
    "links": b"# Topology file: generated on\n" + b'Switch 36 "S-1"\n[1] "S-2"[1]\n' * 30_000,
    "tables": b"Unicast lids [0x0-0x1] of switch a guid 0x1 (b):\n0x0001 001 :\n" * 20_000,
    "a switch": b"interface Ethernet1\n   mtu 9214\n" * 30_000,
    "a switch in JSON": b'{"PORT": {' + b'"Ethernet0": {"mtu": "1"},' * 30_000 + b'"a": {}}}',
    "no switch": b"aaaa bbbb\n" * (3 * MIB),
    "open brackets": b"{" * (30 * MIB),
    "nulls": b"NCCL INFO " + b"\x00" * MIB,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_text_of_a_stranger_is_bounded(data):
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shown = explain_texts([GivenText("a_0", data)])
    assert time.process_time() - began < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 << 10
    assert worst(each.code for each in shown) in (ExitCode.FAILED, ExitCode.UNKNOWN)
    assert len(repr([each.findings for each in shown])) < 100_000


ODD: list[object] = [None, [], {}, "x", -1, 1 << 70, True, 1e308, [[]], {"a": []}, "\x1b[2J" * 1000]


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize("field", cases(__file__, "dump_with_an_odd_field_is_no_traceback"))
def test_dump_with_an_odd_field_is_no_traceback(field, odd):
    entry = {
        "process_group": ["0", "default_pg"],
        "collective_seq_id": 1,
        "profiling_name": "nccl:all_reduce",
        "input_sizes": [[2]],
        "input_dtypes": ["Float"],
        "state": "scheduled",
        "frames": [{"filename": "a.py", "line": 1}],
        field: odd,
    }
    document = {"pg_config": {"0": {"name": "0", "ranks": "[0, 1]"}}, "entries": [entry]}
    (shown,) = explain_texts([GivenText("d_0", json.dumps(document).encode())])
    assert shown.code == ExitCode.UNKNOWN


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize(
    "field", ["ranks", "missing_ranks", "size", "status", "host", "pid", "collective_counts", "ras"]
)
def test_json_of_ras_with_an_odd_field_is_no_traceback(field, odd):
    rank = {"rank": 0, "host": "a", "pid": 1, "status": {"init_state": odd}, field: odd}
    communicator = {"size": 1, "ranks": [rank, odd], "missing_ranks": [rank], field: odd}
    document = {"communicators_count": 1, "communicators": [communicator, odd], field: odd}
    (shown,) = explain_texts([GivenText("a.json", json.dumps(document).encode())])
    assert shown.input == "ras"
    assert shown.code in (ExitCode.FAILED, ExitCode.UNKNOWN)


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize(
    "field", ["args", "config", "results", "out_of_bounds", "average_bus_bandwidth", "env"]
)
def test_json_of_nccl_tests_with_an_odd_field_is_no_traceback(field, odd):
    document = {
        "args": ["all_reduce_perf"],
        "config": {"devices": [odd, {"rank": odd}]},
        "results": [
            odd,
            {"size": 8, "out_of_place": odd, "in_place": {"bus_bw": odd, "nwrong": odd}},
        ],
        "out_of_bounds": {"count": 0},
        "average_bus_bandwidth": {},
        field: odd,
    }
    (shown,) = explain_texts([GivenText("a.json", json.dumps(document).encode())])
    assert shown.code == ExitCode.UNKNOWN


def test_large_and_packed_and_mixed_and_empty_files_are_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(given_module, "MOST_BYTES", 100)
    file = tmp_path / "a"
    file.write_bytes(b"hca_id: a\n" * 100)
    texts = [
        read_given(str(file)),
        GivenText("b", b"\x1f\x8b..."),
        GivenText("c", b"hca_id: a\nCA 'a'\n"),
        GivenText("d", b" \n"),
    ]
    said = [each.findings[0].what for each in explain_texts(texts)]
    assert "MiB" in said[0]
    assert "compressed" in said[1]
    assert "ibv_devinfo and ibstat" in said[2]
    assert "empty" in said[3]


def test_utf_16_is_read():
    text = "hca_id: a\n\tport: 1\n\t\tstate: PORT_ACTIVE (4)\n".encode("utf-16")
    (shown,) = explain_texts([GivenText("a", given_module.decode(text))])
    assert shown.code == ExitCode.OK
