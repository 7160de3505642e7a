"""Who uses a node's RDMA devices and GPUs, and that nothing interrupts them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils import busy
from plugins.module_utils.arguments import plan_role
from plugins.module_utils.busy import Busy, refusal, users
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import Machine
from plugins.module_utils.plan import RUNNING, Change, Plan
from plugins.module_utils.survey import survey
from tests.roles.fake import FakeMachine
from tests.tables import cases

UVERBS = "/dev/infiniband/uverbs0"
NOBODY = 4_000_000  # no user of this machine


def process(
    machine: FakeMachine, pid: int, *devices: str, comm: str = "python3", exe: str = ""
) -> None:
    base = f"/proc/{pid}"
    machine.put(f"{base}/comm", comm + "\n")
    machine.put(f"{base}/status", f"Name:\t{comm}\nUid:\t{NOBODY}\t0\t0\t0\n")
    directory = Path(machine.path(f"{base}/fd"))
    directory.mkdir()
    for number, device in enumerate(devices):
        (directory / str(number)).symlink_to(device)
    Path(machine.path(f"{base}/exe")).symlink_to(exe or "/usr/bin/python3.11")


HANDLES = (UVERBS, "/dev/infiniband/uverbs12", "/dev/nvidia0", "/dev/nvidia-uvm", "/dev/kfd")
MORE_HANDLES = ("/dev/dri/renderD128", "/var/lib/container/root/dev/nvidia7")
NO_HANDLES = ("socket:[17]", "/dev/nvidiactl", "/dev/infiniband/rdma_cm", "/dev/infiniband/umad0")


@pytest.mark.parametrize("device", [*HANDLES, *MORE_HANDLES, "/dev/nvidia0 (deleted)"])
def test_process_with_a_device_open_is_named(machine: FakeMachine, device: str):
    process(machine, 4242, "/dev/null", device)
    (line,) = users(machine)
    assert line.startswith(f"pid 4242 of user {NOBODY}, python3: /dev/")


@pytest.mark.parametrize("file", [*NO_HANDLES, "/dev/dri/card0", "/home/ana/dev/nvidia0.log"])
def test_file_that_is_no_handle_does_not_count(machine: FakeMachine, file: str):
    process(machine, 4242, file)
    assert users(machine) == []


@pytest.mark.parametrize("program", sorted(busy._STANDING))
def test_standing_daemon_is_no_job(machine: FakeMachine, program: str):
    process(machine, 900, UVERBS, "/dev/nvidia0", exe=f"/usr/bin/{program} (deleted)")
    assert busy.look(machine) == ([], [f"standing: {program}"])


@pytest.mark.parametrize(
    ("exe", "comm", "root", "standing"), cases(__file__, "program_of_the_site_s_list_is_no_job")
)
def test_program_of_the_site_s_list_is_no_job(machine, exe, comm, root, standing):
    machine.standing = ["gpuwatch", "a-long-monitors-name", "site/bin/agent", ""]
    process(machine, 901, "/dev/nvidia0", comm=comm, exe=exe)
    if root:
        machine.put("/proc/901/status", "Uid:\t0\t0\t0\t0\n")
    found, ignored = busy.look(machine)
    assert ignored == ([f"standing: {standing}"] if standing else [])
    assert len(found) == (not standing)


def test_own_process_and_one_that_ends_meanwhile_do_not_count(machine: FakeMachine):
    process(machine, os.getpid(), UVERBS)
    machine.put("/proc/8/comm", "gone\n")
    machine.put("/proc/self", "")
    assert users(machine) == []


def test_name_of_a_stranger_s_process_is_one_printable_line(machine: FakeMachine):
    process(machine, 7, UVERBS, comm="a\n\x1b[2Jb\u202ec")
    (line,) = users(machine)
    assert line == rf"pid 7 of user {NOBODY}, a \x1b[2Jb\u202ec: {UVERBS}"


def test_devices_and_processes_beyond_a_few_are_counted(machine: FakeMachine):
    for pid in range(100, 120):
        process(machine, pid, UVERBS, *(f"/dev/nvidia{gpu}" for gpu in range(8)))
    found = users(machine)
    assert found[0].endswith(f"python3: {UVERBS}, /dev/nvidia0 and 7 more")
    assert (len(found), found[-1]) == (17, "4 more")


def test_process_whose_files_cannot_be_read_counts_as_busy(machine, monkeypatch):
    names = machine.names
    process(machine, 41, UVERBS)
    process(machine, 40)

    def refuse(directory):
        if directory == "/proc/40/fd":
            raise PermissionError(13, "Permission denied", directory)
        return names(directory)

    monkeypatch.setattr(machine, "names", refuse)
    known, unknown = users(machine)
    assert known.startswith("pid 41 of ")
    assert unknown == "unknown: the open files of pid 40 cannot be read (/proc/40/fd)"


def test_what_cannot_be_read_counts_as_busy(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch):
    def refuse(directory: str) -> list[str]:
        raise PermissionError(13, "Permission denied", directory)

    monkeypatch.setattr(machine, "names", refuse)
    (line,) = users(machine)
    assert line.startswith("unknown, because of: ")


def mount(machine: FakeMachine, line: str) -> None:
    machine.put("/proc/mounts", line + "\n")


def nvme(machine: FakeMachine, transport: str) -> None:
    machine.put("/sys/class/nvme/nvme3/transport", transport + "\n")


@pytest.mark.parametrize(
    ("use", "named"),
    [
        (
            lambda m: mount(m, "10.0.0.9:/d /data nfs4 rw,proto=rdma,addr=10.0.0.9 0 0"),
            "the nfs4 on /data over RDMA",
        ),
        (lambda m: mount(m, "10.0.0.9@o2ib:/fs /l lustre rw 0 0"), "the lustre on /l over RDMA"),
        (lambda m: nvme(m, "rdma"), "the NVMe-oF controller nvme3 over RDMA"),
        (lambda m: mount(m, "10.0.0.9:/d /data nfs4 rw,proto=tcp,addr=10.0.0.9 0 0"), ""),
        (lambda m: mount(m, "10.0.0.9@tcp:/fs /l lustre rw 0 0"), ""),
        (lambda m: nvme(m, "tcp"), ""),
    ],
)
def test_storage_over_rdma_is_named(machine: FakeMachine, use: Any, named: str):
    use(machine)
    assert users(machine) == ([named] if named else [])


def test_connection_of_the_kernel_is_named(machine: FakeMachine):
    machine.nic("ens1", "0000:18:00.0", "mlx5_0")
    machine.put("/sys/class/infiniband/mlx5_0/device/net/ens1/mtu", "1500\n")
    shown = [{"ifname": "mlx5_0", "type": "RC", "state": "RTS", "comm": "[nvme_rdma]"}]
    machine.programs["rdma -j resource show qp"] = json.dumps(shown)
    assert users(machine) == ["the kernel's nvme_rdma over RDMA: ens1"]


class Role:
    def __init__(self, interrupts: bool) -> None:
        self.interrupts = interrupts
        self.done = False

    def plan(self, machine: Machine, arguments: dict[str, Any]) -> Plan:  # noqa: ARG002
        plan = Plan(machine)
        if not self.done:
            plan.add(Change(RUNNING, "ens1", "PFC", "none", "3"), self._do)
            if self.interrupts:
                plan.interrupt("ens1 PFC", "the link goes down", "for 2 to 10 s")
        return plan

    def _do(self) -> None:
        self.done = True


def test_change_that_interrupts_is_refused_on_a_busy_node(machine: FakeMachine):
    process(machine, 4242, UVERBS)
    role = Role(interrupts=True)
    with pytest.raises(Busy, match=r"pid 4242 .* ens1 PFC: the link goes down, for 2 to 10 s"):
        converge(machine, role, {}, check=False)
    assert not role.done
    assert converge(machine, role, {}, check=True)["interrupts"]
    assert converge(machine, role, {}, check=False, force=True)["changed"]


def test_change_that_interrupts_nothing_is_made_on_a_busy_node(machine: FakeMachine):
    process(machine, 4242, UVERBS)
    role = Role(interrupts=False)
    assert converge(machine, role, {}, check=False)["changed"]
    assert role.done


def test_idle_node_is_changed(machine: FakeMachine):
    assert converge(machine, Role(interrupts=True), {}, check=False)["changed"]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Provide the plan that the role peermem will make."""
    made = Plan(FakeMachine(Path("/nonexistent")))
    monkeypatch.setattr("plugins.module_utils.roles.peermem.plan", lambda *_: made)
    return made


def look(machine: FakeMachine, *, reboots: bool = False) -> dict[str, Any]:
    return survey(machine, {"peermem": {"rails": [], "mode": "auto"}}, plan_role, reboots=reboots)


def test_survey_names_users_where_something_interrupts(machine: FakeMachine, planned: Plan):
    process(machine, 4242, UVERBS)
    assert look(machine)["busy"] == []
    planned.interrupt("ens1 MTU", "the driver opens its queues again", "for under 1 s")
    process(machine, 900, UVERBS, exe="/usr/bin/nv-hostengine")
    assert look(machine)["busy"] == users(machine)
    assert look(machine)["standing"] == ["standing: nv-hostengine"]


def test_reboot_interrupts_if_it_is_made(machine: FakeMachine, planned: Plan):
    process(machine, 4242, UVERBS)
    planned.reboot.append("1 GiB pages")
    assert look(machine)["busy"] == []
    found = look(machine, reboots=True)
    assert found["roles"]["peermem"]["interrupts"] == [
        "reboot: the node is away, for several minutes"
    ]
    assert found["busy"] == users(machine)


def test_refusal_names_some_and_what_to_do():
    assert refusal(["a", "b", "c", "d"], ["x", "y"]) == (
        "busy: a, b, c and 1 more. It would be interrupted: x and 1 more. "
        "Drain the node, or pass --force-busy"
    )
