"""What each role wrote is taken back: the tree is as before, and what reads it was told."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils import guard, revert
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.ofed.holds import OURS
from plugins.module_utils.plan import CONFIGURED, RUNNING, Change, Plan, Refused, make
from plugins.module_utils.replaced import MOST_BYTES, STORE, Replaced, kept
from plugins.module_utils.roles import ORDER, pcie
from tests.roles.fake import FakeMachine
from tests.roles.role_cases import CASES, Case, carry_out
from tests.tables import cases

RUN = "20261127-100000-apply"
UNITS = "etc/systemd/system"
# Beside what is listed as not taken back: an environment, and a copy of a vendor's repository.
STAYS = ("/opt/", "/var/lib/rdmaprov/replaced", "/var/lib/rdmaprov/ofed/", OURS)


# How a link manager reads the files that came back; ifupdown reads its own at a boot alone.
READ_BY = {
    "fabric": "networkctl reload",
    "links of NetworkManager": "nmcli connection reload",
    "links of netplan": "netplan generate",
}


class Systemd:
    def __init__(self, node: FakeMachine) -> None:
        self.node, self.answer, self.ran = node, node.run, list[str]()

    def __call__(self, argv: list[str], stdin: str = "", timeout_s: int = 0) -> str:
        self.ran.append(" ".join(argv))
        units = [word for word in argv[2:] if not word.startswith("-")]
        root = Path(self.node.root)
        if argv[:2] == ["systemctl", "is-enabled"]:
            state = "disabled"
            if (root / UNITS / units[0]).is_symlink():
                state = "masked"
            elif [*root.glob(f"{UNITS}/*.wants/{units[0]}")]:
                return "enabled\n"
            raise CommandFailed(argv, 1, "", state)
        try:
            said = self.answer(argv, stdin, timeout_s)
        except AssertionError:
            if argv[0] not in ("systemctl", "udevadm", "sysctl", "nmcli", "networkctl", "ifquery"):
                raise
            said = ""
        for unit in units if argv[0] == "systemctl" else ():
            links = [*root.glob(f"{UNITS}/*.wants/{unit}")]
            if argv[1] == "disable":
                for link in links:
                    link.unlink()
                    if not any(link.parent.iterdir()):
                        link.parent.rmdir()
            elif argv[1] == "enable" and not links:
                self.node.link(f"/{UNITS}/multi-user.target.wants/{unit}", f"/{UNITS}/{unit}")
            elif argv[1] == "mask":
                (root / UNITS).mkdir(parents=True, exist_ok=True)
                (root / UNITS / unit).symlink_to("/dev/null")
            elif argv[1] == "unmask":
                (root / UNITS / unit).unlink()
        return said


def with_systemd(node: FakeMachine) -> Systemd:
    there: object = node.run
    if isinstance(there, Systemd):
        return there
    made = Systemd(node)
    node.run = made  # type: ignore[method-assign]
    return made


def tree(node: FakeMachine) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for top in ("etc", "usr/local", "opt", "boot", "var/lib/rdmaprov"):
        for path in sorted(Path(node.root, top).rglob("*")):
            name, own = "/" + str(path.relative_to(node.root)), path.lstat()
            if name.startswith(STAYS) or name in ("/etc/systemd", f"/{UNITS}"):
                continue
            content: Any = path.readlink() if path.is_symlink() else ""
            content = path.read_bytes() if stat.S_ISREG(own.st_mode) else content
            found[name] = (content, own.st_mode, own.st_uid, own.st_gid)
    return found


def keep(node: FakeMachine, role: str = "limits", run: str = RUN) -> None:
    keeper = Replaced(node, run, role)
    node.keep, node.note = keeper.keep, keeper.note


def made_right(case: Case, node: FakeMachine, role: str) -> None:
    keep(node, role)
    for _ in range(3):
        for step in case.role.plan(node, case.arguments).steps:
            make(node, step)


def planned(node: FakeMachine, role: str = "limits") -> Plan:
    return revert.plan(node, {"run": RUN, "role": role})


def take_back(node: FakeMachine, role: str = "limits") -> Plan:
    node.keep = node.note = None
    found = planned(node, role)
    for step in found.steps:
        step.do()
    return found


@pytest.fixture(autouse=True)
def _ways(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(guard, "ways", lambda _machine: {"eno1": ["ssh"]})
    monkeypatch.setattr(pcie, "architecture", lambda: "x86_64")
    monkeypatch.setattr("plugins.module_utils.peermem.dmabuf.dmabuf_obstacle", lambda _: "")
    return iter([None])


@pytest.mark.parametrize("name", CASES)
def test_tree_is_as_before_each_role_and_forward_again(name: str, tmp_path: Path):
    case, role = CASES[name], {"links": "fabric"}.get(name.split()[0], name.split()[0])
    node = case.node(tmp_path / "node")
    systemd = with_systemd(node)
    before = tree(node)
    made_right(case, node, role)
    after = tree(node)
    systemd.ran.clear()
    take_back(node, role)
    assert tree(node) == before
    assert name not in READ_BY or READ_BY[name] in " ".join(systemd.ran)
    if any(path.startswith(f"/{UNITS}/") for path in after):
        assert "systemctl daemon-reload" in systemd.ran
    assert planned(node, role).steps == []
    carry_out(case, node)
    assert {path for path, own in after.items() if isinstance(own[0], bytes)} <= {*tree(node)}


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    machine.put("/etc/a.conf", "")
    Path(machine.path("/etc/a.conf")).write_bytes(b"caf\xe9\r\n")
    Path(machine.path("/etc/a.conf")).chmod(0o640)
    machine.put("/etc/z.conf", "z\n")
    with_systemd(machine)
    keep(machine)
    return machine


def test_owner_and_mode_come_back(node: FakeMachine):
    if os.geteuid() == 0:
        os.chown(node.path("/etc/a.conf"), 7, 8)
    before = tree(node)
    node.write("/etc/a.conf", "new\n")
    node.remove("/etc/z.conf")
    node.write("/etc/new/deep/file", "x")
    assert tree(node) != before
    take_back(node)
    assert tree(node) == before


def test_links_come_back_as_links_also_those_that_lead_nowhere(node: FakeMachine):
    Path(node.path("/etc/link")).symlink_to("no/such/file")
    before = tree(node)
    node.write("/etc/link", "x")
    take_back(node)
    assert tree(node) == before


@pytest.mark.parametrize(
    "how", ["other text", "removed", "a link to the same", "a directory", "mode", "text of before"]
)
def test_file_that_was_changed_since_is_named_and_left_alone(node: FakeMachine, how: str):
    node.write("/etc/a.conf", "new\n")
    node.write("/etc/z.conf", "new\n")
    path = Path(node.path("/etc/a.conf"))
    if how == "mode":
        path.chmod(0o600)
    elif how == "text of before":  # by a hand: with another mode
        path.write_bytes(b"caf\xe9\r\n")
    else:
        path.unlink()
    if how == "other text":
        path.write_text("of the admin\n")
    elif how == "a link to the same":
        path.symlink_to("z.conf")
    elif how == "a directory":
        path.mkdir()
    changed = tree(node)
    with pytest.raises(Refused, match=r"^/etc/a\.conf was changed since\. It is left alone"):
        planned(node)
    assert tree(node) == changed


@pytest.mark.parametrize("after", range(7))
def test_interrupt_is_continued(node: FakeMachine, after: int):
    before = tree(node)
    for name in "azb":
        node.write(f"/etc/{name}.conf", "new\n")
    node.write(f"/{UNITS}/own.service", "[Unit]\n")
    plan = Plan(node)
    plan.then(["systemctl", "enable", "own.service"])
    make(node, plan.steps[0])
    node.keep = node.note = None
    for step in planned(node).steps[:after]:
        step.do()
    take_back(node)
    assert tree(node) == before
    assert planned(node).steps == []


def test_copy_that_was_damaged_or_not_kept_is_refused(node: FakeMachine):
    node.write("/etc/a.conf", "new\n")
    Path(node.path(f"{STORE}/{RUN}/0")).write_text("other\n")
    with pytest.raises(NodeError, match=r"copy of /etc/a\.conf .* is damaged"):
        take_back(node)
    assert node.read("/etc/a.conf") == "new\n"
    Path(node.path(f"{STORE}/{RUN}/index.json")).write_text('{"files": [{}]}')
    with pytest.raises(NodeError, match="is damaged"):
        planned(node)


def test_file_that_was_too_large_to_keep_is_refused(node: FakeMachine):
    with Path(node.path("/etc/large")).open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    node.write("/etc/large", "x")
    with pytest.raises(Refused, match="/etc/large was not kept, as it was too large"):
        planned(node)


@pytest.mark.parametrize(
    ("before", "verb", "undone"), cases(__file__, "unit_starts_at_boot_as_before")
)
def test_unit_starts_at_boot_as_before(node: FakeMachine, before: str, verb: str, undone: str):
    systemd = with_systemd(node)
    if verb != "mask":
        node.put(f"/{UNITS}/x.service", "[Unit]\n")
    if before == "enabled":
        node.link(f"/{UNITS}/multi-user.target.wants/x.service", f"/{UNITS}/x.service")
    units = tree(node)
    plan = Plan(node)
    change = Change(CONFIGURED, "x.service", "start at boot", "", "")
    plan.command(change, ["systemctl", verb, "x.service"])
    make(node, plan.steps[0])
    systemd.ran.clear()
    take_back(node)
    told = [line for line in systemd.ran if "is-enabled" not in line]
    assert told == ([f"systemctl {undone} x.service"] if undone else [])
    assert tree(node) == units


def test_firmware_is_listed_and_what_runs_needs_a_reboot(node: FakeMachine):
    node.put("/proc/sys/kernel/random/boot_id", "one\n")
    plan = Plan(node)
    plan.command(Change(CONFIGURED, "0000:18:00.0", "SRIOV_EN", "1", "0"), ["true"])
    plan.add(Change(RUNNING, "ens1", "MTU", "1500", "9000"), lambda: None)
    node.programs["true"] = ""
    for step in plan.steps:
        make(node, step)
    taken = take_back(node)
    assert taken.notes == ["0000:18:00.0 SRIOV_EN was 1, stays 0"]
    assert taken.reboot == ["limits: what runs stays as it is until a reboot (ens1 MTU)"]
    assert planned(node).reboot == taken.reboot
    node.put("/proc/sys/kernel/random/boot_id", "two\n")
    assert (planned(node).reboot, planned(node).notes) == ([], [])


def test_run_of_no_record_is_known_unknown_or_gone(node: FakeMachine):
    def found(made: str) -> dict[str, Any]:
        return revert.survey(node, "20200101-000000-apply", [], made, refuse_busy=True)

    assert found("no")["pending"] == []
    assert found("unknown") == {"skipped": True}
    assert "is gone" in found("yes")["problems"][0]


def test_roles_are_taken_back_the_last_one_first(node: FakeMachine):
    for role in ("limits", "mlx5", "nccl"):
        keep(node, role)
        node.write(f"/etc/{role}", "x")
    found = revert.survey(node, RUN, [], "yes", refuse_busy=True)
    assert found["pending"] == ["nccl", "limits", "mlx5"]
    assert [*found["roles"]] == [*reversed(ORDER)]
    assert revert.survey(node, RUN, ["mlx5"], "yes", refuse_busy=True)["pending"] == ["mlx5"]


def test_management_path_is_not_interrupted(node: FakeMachine):
    systemd = with_systemd(node)
    node.put("/run/NetworkManager/x", "")
    node.programs["nmcli"] = ""
    for netdev in ("eno1", "ens1"):
        keep(node, "fabric" if netdev == "eno1" else "mtu")
        path = f"/etc/NetworkManager/system-connections/rdmaprov-{netdev}.nmconnection"
        node.write(path, "[connection]\n", 0o600)
    assert "which is on the management path" in take_back(node, "fabric").reboot[0]
    assert not [line for line in systemd.ran if line.startswith("nmcli")]
    assert take_back(node, "mtu").interrupts == [
        "ens1 NetworkManager: its addresses are removed and added again, for about 1 s"
    ]
    assert "nmcli connection reload" in systemd.ran


def test_index_of_a_second_change_of_the_same_name_is_taken_back_again(node: FakeMachine):
    before = tree(node)
    node.write("/etc/a.conf", "new\n")
    take_back(node)
    keep(node)
    assert json.loads(node.read(f"{STORE}/{RUN}/index.json") or "")["reverted"] == {"limits": ""}
    node.write("/etc/a.conf", "newer\n")
    assert kept(node, RUN)["reverted"] == {}
    take_back(node)
    assert tree(node) == before
