"""Peer memory by nvidia-peermem: that it is in effect, and why it is not."""

from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.roles import peermem
from plugins.module_utils.roles.peermem import DROP_IN, UNIT
from tests.roles.fake import FakeMachine, layers
from tests.roles.peermem_node import CLIENT, FILE, SYMBOLS, VERSION, answer, arguments, with_gpu
from tests.tables import cases

OPTIONS = "/etc/modprobe.d/x.conf"
EINVAL = CommandFailed(
    ["modprobe", "nvidia_peermem"],
    1,
    "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument",
)


@pytest.fixture
def node(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    return with_gpu(machine, monkeypatch)


def test_module_is_loaded_now_and_at_boot(node: FakeMachine):
    result = converge(node, peermem, arguments(), check=False)
    assert layers(result) == [("running", "nvidia_peermem"), ("configured", FILE)]
    assert (node.read(FILE) or "").splitlines()[1:] == ["nvidia_peermem"]
    assert result["reboot"] == []
    assert not converge(node, peermem, arguments(), check=False)["changed"]


def test_legacy_client_is_one(node: FakeMachine):
    converge(node, peermem, arguments(), check=False)
    node.remove(CLIENT)
    node.put(CLIENT.replace("nv_mem", "nv_mem_nc"), "580.95.05\n")
    assert not converge(node, peermem, arguments(), check=False)["changed"]


def test_loaded_module_that_is_no_client_is_an_error(node: FakeMachine):
    converge(node, peermem, arguments(), check=False)
    node.remove(CLIENT)
    with pytest.raises(NodeError, match=r"is loaded, but not registered .*memory_peers"):
        converge(node, peermem, arguments(), check=True)


def says_later(line: str) -> Any:
    """Return a kernel log that has a line more from the second reading on."""
    seen: list[str] = []

    def dmesg(argv: list[str]) -> str:
        seen.append(argv[0])
        return f"[    9.0] {line}\n" if len(seen) > 1 else ""

    return dmesg


def fails(why: str) -> dict[str, Any]:
    return {"modprobe nvidia_peermem": CommandFailed(["modprobe"], 1, why)}


@pytest.mark.parametrize(
    ("programs", "options", "says"),
    [
        (
            {},
            "options nvidia-peermem peerdirect_support=7",
            r"/etc/modprobe.d/x.conf sets peerdirect_support to 7, expected 0 or 1",
        ),
        ({}, "", r"built before OFED, without ib_reg.* dkms remove nvidia/580.95.05 -k 6.8.0-45-"),
        (
            {"dmesg": says_later("nvidia_peermem: disagrees about version of symbol ib_reg")},
            "",
            "OFED was changed after .*'.*disagrees about version of symbol ib_reg'.*dkms install",
        ),
        (
            {"dmesg": says_later("Unknown symbol ib_register_peer_memory_client (err -2)")},
            "",
            "built for OFED, but the running RDMA drivers lack",
        ),
        (fails("Key was rejected by x"), "", "Secure Boot requires a signature"),
        (fails("No such device"), "", "finds no GPU"),
        (fails("Cannot allocate"), "", "Cannot allocate. Run on the node: modprobe -v"),
    ],
    ids=["parameter", "no-symbols", "versions", "inbox", "secure-boot", "no-gpu", "other"],
)
def test_module_that_does_not_load_is_explained(node: FakeMachine, programs, options, says):
    node.programs["modprobe nvidia_peermem"] = EINVAL
    node.programs["dkms status"] = "nvidia/580.95.05, 6.8.0-45-generic, x86_64: installed\n"
    node.programs |= programs
    node.put(OPTIONS, options)
    with pytest.raises(NodeError, match=rf"^nvidia_peermem does not load: .*{says}"):
        converge(node, peermem, arguments(), check=False)
    assert not node.exists(FILE)


def test_drivers_that_were_replaced_are_a_reason_for_a_reboot(node: FakeMachine):
    node.put("/proc/kallsyms", "0000000000000000 T ib_register_device\t[ib_core]\n")
    node.programs["modinfo -F srcversion ib_core"] = "533BB7E5866E52F63B9ACCB\n"
    result = converge(node, peermem, arguments(), check=False)
    assert layers(result) == [("configured", FILE)]
    (reason,) = result["reboot"]
    assert "others are on disk" in reason
    node.put("/sys/module/ib_core/srcversion", "533BB7E5866E52F63B9ACCB\n")
    with pytest.raises(NotYet, match="write ofed_source"):
        converge(node, peermem, arguments(), check=False)


@pytest.mark.parametrize(
    ("path", "text"), cases(__file__, "boot_that_would_not_load_it_is_refused")
)
def test_boot_that_would_not_load_it_is_refused(node: FakeMachine, path: str, text: str):
    converge(node, peermem, arguments(), check=False)
    node.put(path, text)
    with pytest.raises(Refused, match=r"would not be loaded at boot: .*nvidia.peermem"):
        converge(node, peermem, arguments(), check=False)


def test_other_lines_of_modprobe_do_not_count(node: FakeMachine):
    node.put("/etc/modprobe.d/x.conf", "blacklist nouveau\ninstall nvidia_peermem modprobe x\n")
    assert converge(node, peermem, arguments(), check=True)["changed"]


@pytest.mark.parametrize("mode", ["off", "dmabuf"])
def test_loaded_module_is_left_alone(node: FakeMachine, mode: str):
    converge(node, peermem, arguments(), check=False)
    node.ran.clear()
    result = converge(node, peermem, arguments(mode), check=False)
    assert layers(result) == [("configured", FILE)]
    assert node.exists(CLIENT)
    assert result["notes"][1].startswith("nvidia_peermem is loaded and stays loaded")
    assert not [line for line in node.ran if line.startswith("modprobe")]


@pytest.mark.parametrize("status", ["", "mlnx-ofed-kernel/24.10, 6.8.0-45-generic: installed\n"])
def test_precompiled_driver_gets_no_commands_of_dkms(node: FakeMachine, status: str):
    node.programs["modprobe nvidia_peermem"] = EINVAL
    node.programs |= {"dkms status": status} if status else {}
    with pytest.raises(NodeError, match="precompiled, as the distribution's is") as caught:
        converge(node, peermem, arguments(), check=False)
    assert "dkms remove" not in str(caught.value)


def test_auto_prefers_dmabuf(node: FakeMachine):
    node.put(FILE, "nvidia_peermem\n")
    result = converge(node, peermem, arguments("auto"), check=False)
    assert result["notes"] == ["dmabuf: the node supports it"]
    assert layers(result) == [("configured", FILE)]
    assert not node.exists(FILE)
    assert not converge(node, peermem, arguments("auto"), check=False)["changed"]


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda node: node.put(VERSION, "NVIDIA UNIX x86_64 Kernel Module  580"), "proprietary"),
        (
            lambda node: (
                node.remove(VERSION),
                node.programs.update({"modinfo -F license nvidia": "NVIDIA\n"}),
            ),
            r"proprietary one \(modinfo",
        ),
    ],
)
def test_auto_takes_peermem_where_dmabuf_cannot_be(node: FakeMachine, prepare: Any, why: str):
    prepare(node)
    result = converge(node, peermem, arguments("auto"), check=False)
    (note,) = result["notes"]
    assert note.startswith("nvidia-peermem: ")
    assert layers(result) == [("running", "nvidia_peermem"), ("configured", FILE)]
    with pytest.raises(Refused, match=rf"^dma-buf cannot be used: .*{why}.*peermem_mode"):
        converge(node, peermem, arguments("dmabuf"), check=True)


def test_nics_that_cannot_do_dmabuf_are_named(node: FakeMachine, monkeypatch: pytest.MonkeyPatch):
    answer(monkeypatch, "mlx5_0's driver does not register dma-buf memory")
    with pytest.raises(Refused, match="rail 0: mlx5_0's driver does not"):
        converge(node, peermem, arguments("dmabuf"), check=True)
    node.put("/proc/kallsyms", "0000000000000000 T other\n")
    with pytest.raises(NotYet, match=r"peermem_mode: dmabuf \(nvidia-peermem: rail 0: mlx5_0's"):
        converge(node, peermem, arguments("auto"), check=True)


def test_drivers_decide_and_not_the_kernels_number(node, monkeypatch):
    """What was backported to a distribution's kernel, its number does not tell."""
    node.put("/proc/sys/kernel/osrelease", "4.18.0-553.el8_10.x86_64\n")
    result = converge(node, peermem, arguments("auto"), check=True)
    assert result["notes"] == ["dmabuf: the node supports it"]
    answer(monkeypatch, "mlx5_0's driver does not register dma-buf memory")
    node.put("/sys/module/ib_uverbs/refcnt", "2\n")
    with pytest.raises(Refused, match=r"drivers of kernel 4\.18\.0-553\S+ have no ib_umem_dmabuf"):
        converge(node, peermem, arguments("dmabuf"), check=True)
    node.put("/proc/kallsyms", SYMBOLS + "0000000000000000 t ib_umem_dmabuf_get\t[ib_uverbs]\n")
    with pytest.raises(
        Refused, match=r"rail 0: mlx5_0's driver does not register dma-buf memory\."
    ):
        converge(node, peermem, arguments("dmabuf"), check=True)


def test_auto_has_nothing_to_do_without_a_gpu(node: FakeMachine):
    node.put("/sys/bus/pci/devices/0000:1b:00.0/vendor", "0x1002\n")
    result = converge(node, peermem, arguments("auto"), check=False)
    assert not result["changed"]
    assert result["notes"] == ["off: the node has no NVIDIA GPU (/sys/bus/pci/devices)"]


ON = arguments(mode="off", gpu_persistence="on")
# Ubuntu's, of nvidia-compute-utils.
STOCK = "/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose"
SET = f"""\
# Written by rdmaprov (peermem); changes here are lost.
[Service]
ExecStart=
ExecStart={STOCK.replace(" --no-persistence-mode", "")}
"""
_SHOWN = "ExecStart={{ path={0} ; argv[]={1} ; ignore_errors=no ; pid=0 }}\n"


def stock(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, **changed: str) -> FakeMachine:
    """Return Ubuntu's node: two GPUs, and a unit that turns persistence mode off."""
    node = with_gpu(machine, monkeypatch)
    unit = {"LoadState": "loaded", "UnitFileState": "static", "NeedDaemonReload": "no", **changed}
    state = {"mode": "Disabled", "read": ""}

    def show(_: list[str]) -> str:
        lines = [line for line in state["read"].splitlines() if line.startswith("ExecStart=/")]
        command = lines[-1].partition("=")[2] if lines else unit.get("command", STOCK)
        shown = "".join(f"{key}={value}\n" for key, value in unit.items() if key != "command")
        return shown + _SHOWN.format(command.split()[0], command)

    def reload(_: list[str]) -> str:
        state["read"] = node.read(DROP_IN) or ""
        return ""

    def turn_on(_: list[str]) -> str:
        state["mode"] = "Enabled"
        return ""

    def enable(_: list[str]) -> str:
        unit["UnitFileState"] = "enabled"
        return ""

    node.programs |= {
        "systemctl show": show,
        "systemctl daemon-reload": reload,
        "systemctl enable": enable,
        "nvidia-smi -pm 1": turn_on,
        "nvidia-smi --query-gpu": lambda _: f"{state['mode']}\n" * 2,
    }
    return node


def test_stock_unit_is_started_without_its_option(machine, monkeypatch):
    node = stock(machine, monkeypatch)
    assert converge(node, peermem, ON, check=True)["changed"]
    assert not node.exists(DROP_IN)
    changes = converge(node, peermem, ON, check=False)["changes"]
    assert [(each["layer"], each["device"], each["seen"]) for each in changes] == [
        ("configured", UNIT, STOCK),
        ("running", "GPUs", "Disabled, Disabled"),
    ]
    assert node.read(DROP_IN) == SET
    assert not converge(node, peermem, ON, check=False)["changed"]
    assert node.ran.count("nvidia-smi -pm 1") == 1


def test_drop_in_that_was_edited_is_written_again(machine, monkeypatch):
    node = stock(machine, monkeypatch)
    converge(node, peermem, ON, check=False)
    node.put(DROP_IN, SET + "Nice=5\n")
    assert converge(node, peermem, ON, check=False)["changed"]
    assert node.read(DROP_IN) == SET


def test_unit_that_is_right_gets_no_drop_in(machine, monkeypatch):
    """RHEL's starts the daemon with persistence mode, and is disabled until somebody enables it."""
    right = {"UnitFileState": "disabled", "command": "/usr/bin/nvidia-persistenced --verbose"}
    node = stock(machine, monkeypatch, **right)
    changes = converge(node, peermem, ON, check=False)["changes"]
    assert [each["wanted"] for each in changes] == ["enabled", "Enabled"]
    assert not node.exists(DROP_IN)


def test_keep_takes_our_drop_in_away_and_asks_nothing(machine, monkeypatch):
    node = stock(machine, monkeypatch)
    converge(node, peermem, ON, check=False)
    node.ran.clear()
    assert converge(node, peermem, {**ON, "gpu_persistence": "keep"}, check=False)["changed"]
    assert not node.exists(DROP_IN)
    assert node.ran == ["systemctl daemon-reload"]


@pytest.mark.parametrize(
    ("changed", "says"), cases(__file__, "what_cannot_be_turned_on_is_refused")
)
def test_what_cannot_be_turned_on_is_refused(machine, monkeypatch, changed, says):
    node = stock(machine, monkeypatch, **changed)
    with pytest.raises(Refused, match=says):
        converge(node, peermem, ON, check=False)
    assert not node.exists(DROP_IN)


def test_node_without_a_gpu_has_nothing_to_do(machine: FakeMachine, monkeypatch):
    node = stock(machine, monkeypatch)
    node.put("/sys/bus/pci/devices/0000:1b:00.0/vendor", "0x1002\n")
    assert not converge(node, peermem, ON, check=False)["changed"]
    assert node.ran == []
