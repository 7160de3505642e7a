"""Forms of NCCL's lines: known ones are read, unknown ones are "could not tell"."""

import pytest
from tests.tables import cases
from tests.unit.helpers.nccl_jobs import Job, of

from rdmaprov.nccl_log import transport
from rdmaprov.nccl_log.transport import Transport


def test_without_the_list_of_devices_the_link_layer_is_unknown():
    lines = [line for line in Job().lines() if "NET/IB : Using" not in line]
    matrix = of("\n".join([*lines, ""]))
    assert transport.verdict(matrix).transport is Transport.UNKNOWN
    (problem,) = transport.judge(matrix, Transport.ROCE, None, True)
    assert not problem.proven


def test_process_that_lists_two_sets_of_devices_is_unknown():
    line = Job().message(0, "NET/IB : Using [0]mlx5_9:1/IB [RO]; OOB eth0:192.0.2.1<0>")
    assert transport.verdict(of(line + "\n" + Job().text())).transport is Transport.UNKNOWN


def test_merged_device_is_named_by_its_parts():
    job = Job(version="2.27.3")
    lines = [line.replace("via NET/IB/0", "via NET/IB/2") for line in job.lines()]
    made = [
        job.message(rank, "NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=1 ndevs=2")
        for rank in range(job.ranks)
    ]
    known, unnamed = of("\n".join([*made, *lines, ""])), of("\n".join([*lines, ""]))
    assert known.channels[0].hcas == ("mlx5_0", "mlx5_1")
    assert unnamed.channels[0].hcas == ()
    assert transport.verdict(unnamed).transport is Transport.ROCE


def test_data_direct_device_is_named_as_the_nic_that_it_is_of():
    job = Job(version="2.28.3")
    lines = [line.replace("mlx5_0:1", "mlx5_0_dma:1") for line in job.lines()]
    assert {channel.hcas for channel in of("\n".join([*lines, ""])).channels} == {
        channel.hcas for channel in of(job.text()).channels
    }


def test_list_of_devices_that_nccl_cut_ends_at_the_last_whole_one():
    job = Job()
    cut = [
        line.split(" [1]mlx5_1")[0] + " [1]mlx5_1:1/Ro" if "NET/IB : Using" in line else line
        for line in job.lines()
    ]
    assert {channel.hcas for channel in of("\n".join([*cut, ""])).channels} == {("mlx5_0",), ()}


@pytest.mark.parametrize(
    ("shape", "device", "gdr", "network"),
    cases(__file__, "every_form_of_a_network_channel_is_read"),
)
def test_every_form_of_a_network_channel_is_read(shape, device, gdr, network):
    (channel,) = of(f"h:1:2 [0] NCCL INFO {shape}\n").channels
    assert (channel.device, channel.gdr, channel.network) == (device, gdr, network)


@pytest.mark.parametrize("kind", cases(__file__, "every_form_of_a_local_channel_is_read"))
def test_every_form_of_a_local_channel_is_read(kind):
    matrix = of(f"h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {kind}\n")
    ((name, count),) = matrix.members[0].local.items()
    assert (kind.startswith(name), count) == (True, 1)
    assert matrix.unreadable == (0, "")


@pytest.mark.parametrize("shape", cases(__file__, "unknown_form_of_a_channel_is_could_not_tell"))
def test_unknown_form_of_a_channel_is_could_not_tell(shape):
    matrix = of(Job().text() + f"h:1:2 [0] NCCL INFO {shape}\n")
    (problem,) = transport.judge(matrix, Transport.ROCE, None, True)
    assert not problem.proven
    assert shape in problem.what


def test_unknown_plugin_is_could_not_tell():
    matrix = of(Job(network="FasTrak").text())
    assert transport.verdict(matrix).transport is Transport.UNKNOWN
    (problem,) = transport.judge(matrix, Transport.ROCE, None, True)
    assert (problem.proven, "plugin FasTrak" in problem.remedy) == (False, True)


@pytest.mark.parametrize("prefix", cases(__file__, "prefixes_of_launchers_do_not_matter"))
def test_prefixes_of_launchers_do_not_matter(prefix):
    text = "".join(f"{prefix}{line}\r\n" for line in Job().lines())
    assert of(text).channels == of(Job().text()).channels


def test_lines_that_lost_their_newline_are_told_apart():
    assert of("      ".join(Job().lines()) + "\n").channels == of(Job().text()).channels


@pytest.mark.parametrize(
    ("line", "versions"), cases(__file__, "version_is_that_of_the_running_library")
)
def test_version_is_that_of_the_running_library(line, versions):
    assert of(line + "\n").versions == tuple(versions)


def test_absurd_numbers_are_not_believed():
    long = "9" * 5000
    text = f"h:1:2 [0] NCCL INFO comm 0x1 rank {long} nranks {long} cudaDev 0 - Init COMPLETE\n"
    huge = "h:1:2 [0] NCCL INFO comm 0x1 rank 1 nranks 999999999 cudaDev 0 - Init COMPLETE\n"
    assert of(text + huge).size == 0
