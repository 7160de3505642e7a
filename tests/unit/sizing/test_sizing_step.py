"""What a training step sends and waits for: each formula against numbers derived by hand."""

import pytest

from rdmaprov.sizing.model import (
    SizingError,
    Spread,
    TrainedModel,
    check_spread,
    parse_parameters,
    peak_tflops,
    step_seconds,
)
from rdmaprov.sizing.step import StepNeed
from rdmaprov.sizing.traffic import flows

SEVEN = TrainedModel(7e9, "bfloat16")
LARGE = TrainedModel(70e9, "bfloat16", layers=80, hidden=8192)


def need(model, spread, seconds=1.0, tokens=0.0, link_gbps=400.0):
    return StepNeed(tuple(flows(model, check_spread(spread), tokens)), spread, seconds, link_gbps)


def test_7b_in_bf16_has_14_gb_of_gradients_and_needs_28_gb_s_of_a_gpu():
    found = need(SEVEN, Spread(256, 1, 1))
    assert SEVEN.gradient_bytes == 14e9
    assert found.gpu_bytes == pytest.approx(14e9 * 2 * 255 / 256)
    assert found.gpu_gb_s == pytest.approx(27.890625)
    assert found.rail_gbps == pytest.approx(223.125)


def test_rails_of_a_node_carry_a_ring_once_for_all_of_its_gpus():
    """Seven of eight GPUs send to their neighbour over NVLink."""
    found = need(SEVEN, Spread(256, 8, 8))
    assert found.gpu_gb_s == pytest.approx(27.890625)
    assert found.rail_gbps == pytest.approx(223.125 / 8)


def test_fsdp_sends_half_as_much_again():
    ddp, fsdp = (need(SEVEN, Spread(256, 8, 8, strategy)) for strategy in ("ddp", "fsdp"))
    assert fsdp.gpu_bytes == pytest.approx(1.5 * ddp.gpu_bytes)


def test_replicas_inside_one_node_need_no_rail():
    found = need(SEVEN, Spread(8, 8, 8))
    assert found.gpu_bytes > 0
    assert found.rail_gbps == 0
    assert found.exposed_share(4) == 0


def test_tensor_parallelism_inside_a_node_gives_each_gpu_a_ring_of_its_own():
    """Each GPU of a node has an eighth of the model, and reduces it with GPUs of other nodes."""
    gradients, tensor = need(LARGE, Spread(512, 8, 8, tensor=8), tokens=4e6).flows
    assert gradients.gpu_bytes == pytest.approx(2 * 63 / 64 * (140e9 / 8))
    assert gradients.node_bytes == pytest.approx(8 * gradients.gpu_bytes)
    assert tensor.gpu_bytes == pytest.approx(4 * 80 * 2 * 7 / 8 * (4e6 / 64 * 8192 * 2))
    assert tensor.node_bytes == 0


def test_tensor_parallelism_across_nodes_is_on_the_rails_and_hides_behind_nothing():
    inside, across = (
        need(LARGE, Spread(512, 8, 8, tensor=n), tokens=4e6, seconds=10) for n in (8, 16)
    )
    assert across.flows[1].node_bytes > 0
    assert across.exposed_share(1) > 10 * inside.exposed_share(1)


def test_pipeline_hands_on_activations_and_their_gradients():
    found = need(LARGE, Spread(512, 8, 8, tensor=8, pipeline=4), tokens=4e6)
    activations = 4e6 / 16 * 8192 * 2
    stage = found.flows[2]
    assert stage.gpu_bytes == pytest.approx(2 * activations / 8)
    assert stage.node_bytes == pytest.approx(8 * stage.gpu_bytes)
    assert found.flows[1].formula.startswith("4 × 20 layers")


def test_exposed_share_is_what_the_backward_pass_does_not_hide():
    found = need(SEVEN, Spread(256, 8, 8), seconds=0.1)
    busy = 14e9 * 2 * 255 / 256 / 8 / (50e9 * found.network_share)
    assert found.communication_s(1) == pytest.approx(busy)
    waits = busy - 0.1 * 4 / 6
    assert found.exposed_share(1) == pytest.approx(waits / (0.1 + waits))
    assert found.share_without_overlap(1) == pytest.approx(busy / (0.1 + busy))


def test_the_last_bucket_is_exposed_even_on_a_fast_fabric():
    found = need(SEVEN, Spread(256, 8, 8), seconds=100)
    assert found.exposed_s(1) == pytest.approx(found.communication_s(1) * (25 << 20) / 14e9)


def test_oversubscription_lengthens_communication_and_never_shortens_waits():
    found = need(SEVEN, Spread(256, 8, 8), seconds=0.1)
    assert found.communication_s(4) == pytest.approx(4 * found.communication_s(1))
    assert found.exposed_share(1) < found.exposed_share(2) < found.exposed_share(4) < 1


def test_a_step_computes_six_operations_for_each_weight_and_token():
    seconds = step_seconds(SEVEN, 256, "NVIDIA H100 80GB HBM3", 4e6, 0.4)
    assert seconds == pytest.approx(6 * 7e9 * 4e6 / (256 * 989e12 * 0.4))


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H200", 989),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA GB200", 2500),
        ("NVIDIA B200", 2250),
    ],
)
def test_peak_of_a_gpu_is_that_of_its_data_sheet(name, peak):
    assert peak_tflops(name) == peak


def test_unknown_gpu_says_which_are_known():
    with pytest.raises(SizingError) as caught:
        peak_tflops("GeForce 256")
    assert "--step-s" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "number"), [("7e9", 7e9), ("70B", 70e9), ("1.5T", 1.5e12), ("350M", 350e6), ("8", 8)]
)
def test_parameters_are_read_as_people_write_them(text, number):
    assert parse_parameters(text) == number


@pytest.mark.parametrize("text", ["0", "-7e9", "7 e9", "seven", "nan", "inf", "1e99", "", "1e16"])
def test_what_is_no_number_of_parameters_is_refused(text):
    with pytest.raises(SizingError, match="not a number of parameters"):
        parse_parameters(text)


@pytest.mark.parametrize(
    ("spread", "says"),
    [
        (Spread(100, 8, 8, tensor=8), "no multiple of --tp 8"),
        (Spread(12, 8, 8), "no multiple of --gpus-per-node"),
        (Spread(48, 8, 8, tensor=3), "do not divide"),
    ],
)
def test_a_spread_that_does_not_fit_is_refused(spread, says):
    with pytest.raises(SizingError, match=says):
        check_spread(spread)


@pytest.mark.parametrize("spread", [Spread(64, 8, 8, tensor=8), Spread(64, 8, 8, pipeline=2)])
def test_activations_of_unknown_size_are_asked_for(spread):
    with pytest.raises(SizingError, match="activations"):
        flows(SEVEN, spread)
