"""Files of a plan: content, mode and owner; each alone is a change, and is repaired."""

import json
import os
import stat
from pathlib import Path

import pytest
from plugins.module_utils import replaced
from plugins.module_utils.machine import Machine, NodeError, own
from plugins.module_utils.plan import LINK_NOTE, RUNNING, Change, Plan, carry_out
from plugins.module_utils.replaced import MOST_CHANGES, STORE, Replaced, name_of
from tests.roles.fake import FakeMachine

PATH = "/etc/rdmaprov.conf"
OTHER = 12345


def planned(machine: FakeMachine, mode: int = 0o600) -> Plan:
    plan = Plan(machine)
    plan.file(PATH, "text\n", mode)
    return plan


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    carry_out(planned(machine), lambda: planned(machine))
    return machine


def repaired(node: FakeMachine, setting: str) -> bool:
    """Return whether a plan has this change and no other, and making it leaves the file right."""
    plan = planned(node)
    carry_out(plan, lambda: planned(node))
    settings = [change["setting"] for change in plan.changes()]
    return settings == [setting] and node.stands(PATH, "text\n", 0o600)


def test_file_of_ours_is_left_alone(node: FakeMachine):
    assert not planned(node).steps


def test_other_text_is_a_change(node: FakeMachine):
    node.write(PATH, "tex\n", 0o600)
    assert repaired(node, "content")


@pytest.mark.parametrize("mode", [0o644, 0o602, 0o400, 0o4600])
def test_other_mode_is_a_change(node: FakeMachine, mode: int):
    Path(node.path(PATH)).chmod(mode)
    (change,) = planned(node).changes()
    assert change["seen"].startswith(f"mode {mode:o} of ")
    assert repaired(node, "access")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(("user", "group"), [(OTHER, -1), (-1, OTHER)])
def test_other_owner_is_a_change(node: FakeMachine, user: int, group: int):
    os.chown(node.path(PATH), user, group)
    (change,) = planned(node).changes()
    assert str(OTHER) in change["seen"]
    assert repaired(node, "access")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_directory_that_hands_its_group_on_does_not_keep_a_file_from_root(machine: FakeMachine):
    machine.put("/etc/other")
    directory = Path(machine.path("/etc"))
    os.chown(directory, -1, OTHER)
    directory.chmod(directory.stat().st_mode | stat.S_ISGID)
    carry_out(planned(machine), lambda: planned(machine))
    assert machine.access(PATH) == own(0o600)
    assert directory.stat().st_mode & stat.S_ISGID


FILE = "/etc/security/limits.conf"


@pytest.fixture
def root_of(tmp_path: Path) -> Path:
    (tmp_path / "etc/security").mkdir(parents=True)
    (tmp_path / FILE[1:]).write_bytes(b"caf\xe9\r\n")
    (tmp_path / FILE[1:]).chmod(0o640)
    return tmp_path


def changed(root: Path, change: str = "20261127-100000-apply", role: str = "limits") -> Machine:
    machine = Machine(str(root))
    machine.keep = Replaced(Machine(str(root)), change, role).keep
    return machine


def kept(root: Path, change: str = "20261127-100000-apply") -> list[dict[str, object]]:
    return json.loads((root / STORE[1:] / change / "index.json").read_text())["files"]  # type: ignore[no-any-return]


def content(root: Path, entry: dict[str, object]) -> bytes:
    return (root / STORE[1:] / "20261127-100000-apply" / str(entry["content"])).read_bytes()


def test_copies_are_root_s_alone(root_of: Path):
    changed(root_of).write(FILE, "new\n")
    store = root_of / STORE[1:]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in store.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (store, *store.iterdir())} == {0o700}


def test_first_content_stays_and_the_last_digest_counts(root_of: Path):
    machine = changed(root_of)
    machine.write(FILE, "one\n")
    machine.write(FILE, "two\n")
    first = kept(root_of)
    assert content(root_of, first[0]) == b"caf\xe9\r\n"
    machine.remove(FILE)
    assert [entry["after"] for entry in kept(root_of)] == [""]
    assert first[0]["after"] != ""


def test_what_was_absent_or_a_link_is_kept_as_that(root_of: Path):
    (root_of / "etc/link").symlink_to("security/limits.conf")
    machine = changed(root_of)
    machine.write("/etc/link", "x")
    machine.write("/etc/new", "x")
    machine.remove("/etc/never-there")
    link, absent = kept(root_of)
    assert (link["kind"], link["target"]) == ("link", "security/limits.conf")
    assert (absent["kind"], absent["path"]) == ("absent", "/etc/new")


def test_what_a_boot_makes_anew_is_not_kept(root_of: Path):
    changed(root_of).write("/run/rdmaprov/x", "x")
    assert not (root_of / STORE[1:]).exists()


def test_last_ten_changes_are_kept(root_of: Path):
    for number in range(MOST_CHANGES + 3):
        changed(root_of, f"run-{number:02}").write(FILE, f"{number}\n")
        os.utime(root_of / STORE[1:] / f"run-{number:02}", (number, number))
    names = sorted(path.name for path in (root_of / STORE[1:]).iterdir())
    assert names == [f"run-{number:02}" for number in range(3, MOST_CHANGES + 3)]


def test_copies_have_a_limit_and_the_oldest_go_first(root_of, monkeypatch):
    monkeypatch.setattr(replaced, "MOST_BYTES", 3000)
    changed(root_of, "old").write("/etc/a", "a" * 2000)
    changed(root_of, "old").write("/etc/a", "b")
    changed(root_of, "mid").write("/etc/b", "b" * 2000)
    changed(root_of, "mid2").write("/etc/b", "c")
    changed(root_of, "new").write("/etc/c", "d" * 4000)
    changed(root_of, "newest").write("/etc/c", "e")
    assert kept(root_of, "newest")[0]["content"] is None
    total = sum(path.stat().st_size for path in (root_of / STORE[1:]).rglob("*") if path.is_file())
    assert total <= 3000 + 1000  # the lists themselves are small


def test_nothing_is_replaced_that_cannot_be_kept(root_of: Path):
    (root_of / "var").mkdir()
    (root_of / "var/lib").write_text("no directory\n")
    with pytest.raises(NodeError):
        changed(root_of).write(FILE, "new\n")
    assert (root_of / FILE[1:]).read_bytes() == b"caf\xe9\r\n"


@pytest.mark.parametrize("run", ["", "/runs/../..", "/x/a b", "/x/" + "a" * 200])
def test_name_of_a_run_makes_no_path(run: str):
    assert name_of({"holder": {"run": run}}).endswith("-ansible")
    assert name_of({"holder": {"run": "/w/runs/20261127-1-apply"}}) == "20261127-1-apply"


def test_links_that_a_step_takes_down_are_noted(machine):
    """For validate to subtract them; of this boot, and of devices with hardware alone."""
    base = "/sys/class/net/{}/carrier_changes"

    def planned(machine, then):
        plan = Plan(machine)
        plan.add(Change(RUNNING, "ens1", "PFC", "off", "on"), lambda: then(machine))
        return plan

    def toggle(machine):
        for netdev in ("ens1", "veth0"):
            count = int(machine.read(base.format(netdev)))
            machine.put(base.format(netdev), f"{count + 2}\n")

    for netdev, count in (("ens1", "7\n"), ("ens2", "1\n"), ("veth0", "3\n")):
        machine.put(base.format(netdev), count)
    for netdev in ("ens1", "ens2"):
        machine.put(f"/sys/class/net/{netdev}/device/vendor", "0x15b3\n")
    seen = []
    for boot in ("one", "one", "two"):
        machine.put("/proc/sys/kernel/random/boot_id", boot + "\n")
        carry_out(planned(machine, toggle), lambda: Plan(machine))
        seen.append(json.loads(machine.read(LINK_NOTE)))
    assert [each["changes"] for each in seen] == [{"ens1": 2}, {"ens1": 4}, {"ens1": 2}]
    assert seen[-1]["boot_id"] == "two"
