"""What is read of nvidia-smi, on captures of real machines, and where the services differ."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.tables import cases
from tests.validate.runner import by_test, described, ends, hosts_of, judge
from tests.validate.services import DRIVER

from rdmaprov.facts import CouldNotTell, gpu

CAPTURES = Path(__file__).parents[1] / "fixtures/nvidia-smi"


def driver(name):
    return gpu.parse((CAPTURES / f"{name}.txt").read_text())


EXPECTED = yaml.safe_load((CAPTURES / "expected.yml").read_text())["read"]


@pytest.mark.parametrize("name", EXPECTED)
def test_capture_is_read(name):
    seen, expected = driver(name), EXPECTED[name]
    first = seen.gpus[0]
    found = {
        "version": seen.version,
        "addresses": [each.address for each in seen.gpus],
        "is_on": {field: first.is_on(field) for field in expected["is_on"]},
        "texts": {field: first.text(field) for field in expected["texts"]},
    }
    assert found == expected


@pytest.mark.parametrize("name", ["h100-580-load", "h200-580-load"])
def test_healthy_gpu_at_full_load_is_at_its_power_cap(name):
    (only,) = driver(name).gpus
    reasons = "clocks event reasons/"
    active = {name for name, text in only.values.items() if text == "Active"}
    assert {name for name in active if name.startswith(reasons)} == {f"{reasons}sw power cap"}


def test_line_that_an_old_driver_lacks_is_unknown():
    only = driver("v100-power9-2019").gpus[0]
    assert only.address == "0004:04:00.0"
    assert only.is_on("persistence mode") is True
    with pytest.raises(CouldNotTell, match="shows no remapped rows/pending"):
        only.is_on("remapped rows/pending")


@pytest.mark.parametrize("word", ["ERR!", "Unknown Error", "\x1b[31mEnabled"])
def test_other_word_is_unknown(word):
    text = (CAPTURES / "h100-hgx.txt").read_text()
    odd = text.replace(
        "Persistence Mode                      : Enabled", f"Persistence Mode : {word}"
    )
    with pytest.raises(CouldNotTell, match="as persistence mode") as error:
        gpu.parse(odd).gpus[0].is_on("persistence mode")
    assert "\x1b" not in str(error.value)


@pytest.fixture
def found(judged):
    return lambda **values: by_test(judged("test_gpu.py", **values))


def test_node_without_nvidia_gpus_is_skipped(found, changed):
    for address in ("0000:19:00.0", "0000:41:00.0"):
        changed.put(f"/sys/bus/pci/devices/{address}/vendor", "0x1002\n")
    changed.remove("/.bin/nvidia-smi")
    seen = found()
    assert {state for state, _ in seen.values()} == {"skipped"}
    assert "no NVIDIA GPU" in seen["test_ecc_running"][1]


def test_node_without_driver_is_unknown(found, changed):
    changed.remove("/.bin/nvidia-smi")
    state, said = found()["test_ecc_running"]
    assert (state, said) == ("error", "unknown: nvidia-smi: not installed")


def test_modules_on_disk_are_unknown_without_modinfo(judged, changed):
    """Seen on a GPU node in a container: what its shell said became the driver's version."""
    changed.remove("/.bin/modinfo")
    said = "unknown: modules on disk: modinfo is not installed. On the node: apt-get install kmod"
    assert ends(judged("test_reboot.py::test_drivers_on_disk_run")) == [("error", said)]


def test_driver_in_a_container(found, changed):
    """NVIDIA's GPU Operator brings driver, fabric manager and nvidia-smi in a tree of their own."""
    changed.put("/.bin/chroot", '#!/bin/sh\nshift\nexec "$ROOT/inside/$@"\n')
    changed.executable("/.bin/chroot")
    for name in ("nvidia-smi", "nv-fabricmanager"):
        there = f"/run/nvidia/driver/usr/bin/{name}"
        changed.put(there)
        (changed.root / there[1:]).chmod(0o755)
        (changed.root / "inside").mkdir(exist_ok=True)
        changed.rename(f"/.bin/{name}", f"/inside/{name}")
    for name in ("nvidia-fabricmanager", "nvidia-persistenced"):
        changed.remove(f"/.answers/units/{name}.service")
    changed.put("/proc/900/comm", "nv-fabricmanage\n")
    seen = found()
    assert seen["test_ecc_running"][0] == "passed"
    assert seen["test_fabric_manager_runs"][0] == "passed"
    assert "in a container" in seen["test_fabric_manager_after_reboot"][1]
    assert "not known" in seen["test_persistence_mode_after_reboot"][1]
    changed.put("/proc/900/comm", "sshd\n")
    assert found()["test_fabric_manager_runs"][0] == "failed"


@pytest.mark.parametrize(
    "name", ["h100-580-idle", "h100-580-load", "h200-580-idle", "h200-580-load"]
)
def test_no_check_faults_a_real_gpu_alone(found, changed, name):
    for address in ("0000:05:00.0", "0000:41:00.0"):
        changed.remove(f"/sys/bus/pci/devices/{address}")
    text = (CAPTURES / f"{name}.txt").read_text().replace("580.159.04", DRIVER)
    changed.put("/.answers/nvidia-smi/-q", text.replace("GPU 00000000:00:06", "GPU 00000000:19:00"))
    changed.put("/.answers/nvidia-smi/nvlink_-s", "GPU 0: NVIDIA H200\n\t Link 0: <inactive>\n")
    seen = found()
    skipped = {each for each, (state, _) in seen.items() if state == "skipped"}
    assert {state for state, _ in seen.values()} == {"passed", "skipped"}
    assert skipped == {
        *("test_fabric_manager_after_reboot", "test_fabric_manager_is_of_the_drivers_version"),
        *("test_fabric_manager_runs", "test_gpus_have_joined_their_nvlink_fabric"),
        *("test_health_command", "test_imex_channel_after_reboot", "test_imex_channel_running"),
        *("test_imex_runs", "test_nvlink_subnet_manager_after_reboot"),
        *("test_nvlink_subnet_manager_runs", "test_nvlink_errors", "test_nvlinks"),
    }


def test_gpus_without_ecc_and_fabric(found, changed):
    """A consumer's GPUs show N/A for what they do not have."""
    path = "/.answers/nvidia-smi/-q"
    changed.replace_all(path, ": Completed", ": N/A")
    changed.replace_all(path, ": Success", ": N/A")
    for kind in ("Current", "Pending"):
        changed.replace_all(path, f"{kind}                           : Enabled", f"{kind} : N/A")
    changed.remove("/sys/bus/pci/devices/0000:05:00.0")
    seen = found()
    assert seen["test_ecc_running"] == ("skipped", "no GPU of the node has ECC")
    assert "no GPU is part" in seen["test_gpus_have_joined_their_nvlink_fabric"][1]
    assert "no NVSwitch" in seen["test_fabric_manager_runs"][1]


RACK = {"fabric_nvlink_domain": "rack1"}


@pytest.mark.parametrize(
    ("text", "properties", "said"),
    [
        ("", {}, "lists no node"),
        ("10.0.0.1\n", {"UnitFileState": "disabled", "ActiveState": "inactive"}, "is disabled"),
    ],
)
def test_imex_that_jobs_start(found, changed, text, properties, said):
    """IMEX may be started for each job (NVIDIA's IMEX guide, "Deployment Models")."""
    changed.put("/etc/nvidia-imex/nodes_config.cfg", text)
    changed.unit("nvidia-imex.service", **properties)
    state, why = found(**RACK)["test_imex_runs"]
    assert state == "skipped"
    assert said in why


def test_domain_that_is_healthy(found, changed):
    """Each check of NVLink and IMEX is silent on a node of a rack, as on one of an HGX B200."""
    seen = found(**RACK)
    assert [state for name, (state, _) in seen.items() if "imex" in name] == ["passed"] * 3
    changed.remove("/sys/bus/pci/devices/0000:05:00.0")
    seen = found()
    managed = [each for each in seen if "fabric_manager" in each or "subnet_manager" in each]
    assert {seen[each][0] for each in managed} == {"passed"}
    assert len(managed) == 5
    seen = found(**RACK)
    assert "trays of their own" in seen["test_fabric_manager_runs"][1]
    changed.remove("/sys/bus/pci/devices/0000:60:00.0/vpd")
    seen = found()
    assert "no NIC leads to one" in seen["test_fabric_manager_after_reboot"][1]


def test_channel_for_each_job_needs_no_channel_0(found, changed):
    changed.remove("/dev/nvidia-caps-imex-channels/channel0")
    changed.put("/etc/slurm/slurm.conf", "ClusterName=a\nSwitchType=switch/nvidia_imex\n")
    seen = found(**RACK)
    assert seen["test_imex_channel_running"][0] == "skipped"
    assert seen["test_imex_runs"][0] == "passed"


def test_tmpfiles_make_the_channel_too(found, changed):
    changed.remove("/etc/modprobe.d/nvidia-imex.conf")
    line = "c /dev/nvidia-caps-imex-channels/channel0 0666 root root - 235:0\n"
    changed.put("/etc/tmpfiles.d/imex.conf", line)
    assert found(**RACK)["test_imex_channel_after_reboot"][0] == "passed"


@pytest.mark.parametrize(("old", "new", "state", "said"), cases(__file__, "domain_of_real_nodes"))
@pytest.mark.parametrize("name", ["one-node", "gb200-eighteen-trays"])
def test_domain_of_real_nodes(found, changed, name, old, new, state, said):
    text = (CAPTURES.parent / f"imex/{name}.txt").read_text()
    changed.answer("nvidia-imex-ctl -N", text.replace(old, new))
    seen = found(**RACK)["test_imex_runs"]
    assert seen[0] == state
    assert said in seen[1]


def test_domains_that_share_one_cluster_are_named(suite, fleet, nodes):
    racks = (described(each, fabric_nvlink_domain=f"rack of {each.name}") for each in fleet.nodes)
    names = frozenset({"test_uniformity.py::test_nvlink_domains"})
    (outcome,) = judge(suite, replace(fleet, nodes=(*racks,)), hosts_of(nodes), names=names)
    assert outcome.state == "failed"
    assert "gpu1 0000:19:00.0: running: NVLink is rack of gpu1, expected rack of" in outcome.said


def test_persistence_that_the_site_leaves_alone_is_not_verified(found):
    seen = found(peermem_gpu_persistence="keep")
    assert seen["test_persistence_mode_running"] == ("skipped", "peermem_gpu_persistence: keep")
    assert seen["test_persistence_mode_after_reboot"][0] == "skipped"


def test_container_engines_without_nccl_conf_are_a_note(judged, changed):
    def said(enroot):
        (end,) = ends(judged("test_nccl.py::test_containers_get_the_file", nccl_enroot=enroot))
        return end

    for name in ("enroot", "docker"):
        changed.put(f"/usr/bin/{name}")
    state, why = said("off")
    assert state == "skipped"
    assert "Containers of enroot, docker do not see /etc/nccl.conf unless a job mounts it" in why
    line = "/etc/nccl.conf /etc/nccl.conf none x-create=file,bind,ro\n"
    changed.put("/etc/enroot/mounts.d/50-ours.fstab", line)
    assert "Containers of docker do not see" in said("off")[1]
    assert said("mounts") == ("passed", "")
    changed.remove("/etc/enroot/mounts.d")
    changed.put("/etc/enroot/environ.d/x.env", (changed.root / "etc/nccl.conf").read_text())
    assert said("environ") == ("passed", "")


DEVICES = "/sys/bus/pci/devices"
TEST = "test_fabric.py::test_node_has_its_gpus"


# Class codes of the PCI Code and ID Assignment Specification 1.15: MI300X, MI200, a GPU with ports.
@pytest.mark.parametrize("kind", ["0x120000", "0x038000", "0x030000"])
@pytest.mark.parametrize(("vendor", "state"), [("0x1002", "passed"), ("0x8086", "failed")])
def test_gpu_of_another_vendor(changed, judged, kind, vendor, state):
    there = changed.root.joinpath(DEVICES.lstrip("/"))
    gpus = [path for path in there.iterdir() if (path / "class").read_text() == "0x030200\n"]
    assert gpus
    for each in gpus:
        changed.put(f"{DEVICES}/{each.name}/vendor", f"{vendor}\n")
        changed.put(f"{DEVICES}/{each.name}/class", f"{kind}\n")
    assert [each.state for each in judged(TEST)] == [state]


def test_virtual_functions_of_the_host_s_gpus_are_none(changed, judged):
    there = changed.root.joinpath(DEVICES.lstrip("/"))
    gpus = [path for path in there.iterdir() if (path / "vendor").read_text() == "0x10de\n"]
    changed.put(f"{DEVICES}/{gpus[0].name}/physfn/vendor", "0x10de\n")
    (outcome,) = judged(TEST)
    assert outcome.state == "failed"
