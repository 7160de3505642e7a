"""`rdmaprov explain floor`: what it prints, its JSON and its exit codes."""

import json

import pytest
from tests.program import ended_here

from rdmaprov.bandwidth import gpus
from rdmaprov.exit_codes import ExitCode

H100 = ["--nodes", "16", "--gpus-per-node", "8", "--rails", "8", "--link-gbps", "400"]
NODES = "16 nodes, 8 × 400G:"


@pytest.fixture
def floor(capsys):
    return lambda *words, fabric=H100: ended_here(capsys, "explain", "floor", *fabric, *words)


ASSUMED = "at 8 GiB (assumed; --size sets it)"


@pytest.mark.parametrize(
    ("options", "code", "start", "end"),
    [
        (["--measured", "345"], ExitCode.OK, "", f": healthy {ASSUMED}"),
        (["--measured", "287"], ExitCode.FAILED, "", f": slow {ASSUMED}"),
        (["--measured", "2870"], ExitCode.FAILED, "", f": impossible {ASSUMED}"),
        ([], ExitCode.OK, "16 nodes, 8 × 400G: ceiling 400 GB/s, floor 294 GB/s at 8 GiB", ASSUMED),
        (["--oversubscription", "2"], ExitCode.OK, f"{NODES} ceiling 200 GB/s, floor 148", ""),
        (["--pcie", "4x16"], ExitCode.OK, f"{NODES} ceiling 230 GB/s, floor 171", ""),
        (["--gpus-per-node", "1"], ExitCode.OK, f"{NODES} ceiling 57.6 GB/s, floor 43", ""),
        *(
            (["--link-gbps", rate], ExitCode.OK, f"{NODES} ceiling 400 GB/s", "")
            for rate in ("400G", "400 Gb/s", "NDR", "8x400", "0.4T")
        ),
    ],
)
def test_first_line_and_exit_code(floor, options, code, start, end):
    done, said, _ = floor(*options)
    first = said.splitlines()[0]
    assert (done, first.startswith(start), first.endswith(end)) == (code, True, True), first


def test_verdict_names_the_size_that_it_is_of(floor):
    """287 GB/s are slow at 8 GiB, and healthy at 1 GiB: so the size is a part of the verdict."""
    code, said, _ = floor("--measured", "287", "--size", "1G")
    assert (code, said.splitlines()[0].rpartition(": ")[2]) == (ExitCode.OK, "healthy at 1 GiB")
    assert "measure 8 GiB, too" in said
    assert "measure 8 GiB, too" not in floor("--measured", "345", "--size", "8G")[1]
    assert json.loads(floor("--json", "--size", "8G")[1])["size_is_assumed"] is False
    found = json.loads(floor("--json")[1])
    assert (found["size_bytes"], found["size_is_assumed"]) == (8 << 30, True)


@pytest.mark.parametrize("size", ["8", "1M", "1016m"])
def test_small_message_is_not_judged_and_no_link_carries_more_by_it(floor, size):
    code, said, _ = floor("--measured", "287", "--size", size)
    assert (code, "not judged at" in said, "healthy:" in said) == (ExitCode.UNKNOWN, True, False)
    assert floor("--measured", "2870", "--size", size)[0] == ExitCode.FAILED


@pytest.mark.parametrize("size", ["8g", "8Gi", "8gb", "8 GiB", "8192m"])
def test_size_and_measurement_are_taken_as_people_write_them(floor, size):
    for measured in ("287GB/s", "287 GB/s", "287"):
        code, said, _ = floor("--measured", measured, "--size", size)
        assert (code, said.splitlines()[0].endswith("slow at 8 GiB")) == (ExitCode.FAILED, True)


@pytest.mark.parametrize("gpu", gpus.KNOWN.split(", "))
def test_gpu_that_is_called_known_limits_in_small_letters_too(floor, gpu):
    for name in (gpu, f"nvidia {gpu.lower()}"):
        assert "One node alone reaches" in floor("--gpu", name)[1], name


def test_slow_names_causes_with_what_to_look_at(floor):
    said = floor("--measured", "287")[1]
    assert "one rail carries nothing: 242 GB/s to 343 GB/s" in said
    assert "check: bytes of each rail" in said


def test_json_has_what_a_program_needs(floor):
    document = json.loads(floor("--measured", "287", "--json")[1])
    assert (document["ceiling_gb_s"], document["floor_gb_s"]) == (400, 293.846)
    assert document["verdict"] == "slow"
    first = document["likely_causes"][0]
    assert first["id"] == "rail-missing"
    assert first["expected_ratio"] == [0.606, 0.858]
    assert document["derivation"].startswith("16 nodes, 8 × 400G: ceiling 400 GB/s, floor 294")


def test_json_without_a_measurement_has_no_verdict(floor):
    document = json.loads(floor("--json")[1])
    assert (document["verdict"], document["likely_causes"]) == (None, [])


def test_json_of_an_impossible_number_is_json(floor):
    document = json.loads(floor("--measured", "2870", "--json")[1], parse_constant=pytest.fail)
    assert document["likely_causes"][0]["id"] == "gigabits"


def test_nodes_that_share_nvlink_may_exceed_their_rails(floor):
    rack = ["--nodes", "36", "--gpus-per-node", "4", "--rails", "4", "--link-gbps", "400"]
    assert floor("--measured", "820", fabric=rack)[0] == ExitCode.FAILED
    assert floor("--measured", "820", "--nvlink-nodes", "18", fabric=rack)[0] == ExitCode.OK


def test_one_rack_is_judged_by_nvlink_and_its_json_has_no_infinity(floor):
    rack = ["--nodes", "18", "--gpus-per-node", "4", "--rails", "4", "--link-gbps", "400"]
    code, _, said = floor("--nvlink-nodes", "18", fabric=rack)
    assert (code, "one NVLink domain uses no rail" in said) == (ExitCode.USAGE, True)
    options = ("--nvlink-nodes", "18", "--gpu", "GB200", "--measured", "820", "--json")
    document = json.loads(floor(*options, fabric=rack)[1], parse_constant=pytest.fail)
    assert (document["verdict"], document["most_gb_s"]) == ("healthy", None)


def test_what_one_node_reaches_alone_limits_the_floor(floor):
    assert floor("--measured", "150")[0] == ExitCode.FAILED
    assert floor("--measured", "150", "--gpu", "NVIDIA H800")[0] == ExitCode.OK
    assert floor("--measured", "150", "--intra-node", "215")[0] == ExitCode.OK


def test_a_small_message_has_a_lower_floor(floor):
    floors = [
        json.loads(floor("--algorithm", "ring", "--size", size, "--json")[1])["floor_gb_s"]
        for size in ("1G", "8G")
    ]
    assert floors[0] < 0.95 * floors[1]


def test_an_algorithm_that_was_forced_bounds_what_is_possible(floor):
    assert floor("--measured", "450")[0] == ExitCode.OK
    assert floor("--measured", "450", "--algorithm", "ring")[0] == ExitCode.FAILED


def test_slots_of_nic_and_gpu_are_said_apart(floor):
    gb300 = ["--nodes", "8", "--gpus-per-node", "4", "--rails", "8", "--link-gbps", "400"]
    gb300 += ["--gpu", "GB300", "--measured", "180"]
    assert floor(fabric=gb300)[0] == ExitCode.FAILED
    assert floor("--pcie", "5x16", fabric=gb300)[0] == ExitCode.OK
    _, said, _ = floor("--pcie", "5x16,6x16", "--json", fabric=gb300)
    found = json.loads(said)
    assert (found["nic_slot"], found["gpu_slot"]) == ("PCIe 5.0 x16", "PCIe 6.0 x16")
    assert found["ceiling_gb_s"] == 400
    assert floor("--pcie", "5x16,7x16")[0] == ExitCode.USAGE
