"""`rdmaprov revert`: what a run of apply wrote is taken back; a node is this machine."""

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.cli import test_busy
from tests.cli.namespaced import needs_namespace, rdmaprov, save
from tests.cli.test_busy import VARIABLES
from tests.program import finish, spawn
from tests.unit.helpers.sites import write

from rdmaprov.exit_codes import ExitCode

pytestmark = needs_namespace

ADMINS = b"# of the admin: caf\xe9\r\noptions mlx5_core prof_sel=2\n"
ROLES = "mlx5,limits"
SYSTEMCTL = '#!/bin/sh\necho "$@" >> /run/told\n'
FILE = "modprobe.d/rdmaprov.conf"
LIMITS = "security/limits.d/99-rdmaprov-memlock.conf"


class Node(test_busy.Node):
    """A node after a run of apply, and how it was before."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, test_busy.ONE)
        self.has("1")
        self.program("systemctl", SYSTEMCTL)
        self.etc = directory / "node/etc"
        (self.etc / FILE).write_bytes(ADMINS)
        (self.etc / FILE).chmod(0o640)
        os.chown(self.etc / FILE, 7, 8)
        self.before = self.tree()
        self.run = self.apply()
        self.restore = save(directory)

    def apply(self) -> str:
        code, said = rdmaprov(self.directory, "apply", "site", "--roles", ROLES)
        assert code in (ExitCode.OK, ExitCode.PENDING), said
        assert "1 node: 1 changed" in said
        return max(path.name for path in (self.directory / "runs").glob("*-apply*"))

    def revert(self, *words: str) -> tuple[int, str]:
        return rdmaprov(self.directory, "revert", "site", *words)

    def tree(self) -> dict[str, Any]:
        """Return what is below /etc: content, mode, owner, and targets of links."""
        found = {}
        for path in sorted(self.etc.rglob("*")):
            own = path.lstat()
            content = path.readlink() if path.is_symlink() else b""
            content = path.read_bytes() if stat.S_ISREG(own.st_mode) else content
            found[str(path)] = (content, own.st_mode, own.st_uid, own.st_gid)
        return found

    def results(self, verb: str) -> Any:
        (path,) = self.directory.glob(f"runs/*-{verb}/results.json")
        return json.loads(path.read_text())["nodes"]["n1"]


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return Node(tmp_path_factory.mktemp("applied"))


@pytest.fixture
def node(applied: Node) -> Node:
    applied.restore()
    return applied


def test_tree_is_as_before_and_again_and_forward(node: Node):
    before, run, applied = node.before, node.run, node.tree()
    assert applied != before
    code, said = node.revert(run, "--plan")
    assert code == ExitCode.PENDING, said
    assert (
        "/etc/modprobe.d/rdmaprov.conf content as the run wrote it → the former file (configured)"
        in said
    )
    assert node.tree() == applied
    code, said = node.revert(f"runs/{run}")
    assert node.tree() == before, said
    assert code == ExitCode.PENDING, said  # modprobe's file counts at a boot
    assert "mlx5: what runs stays as it is until a reboot (/etc/modprobe.d/rdmaprov.conf)" in said
    code, said = node.revert(run)
    assert (code, "1 node: 1 unchanged" in said) == (ExitCode.PENDING, True), said
    assert node.tree() == before
    node.apply()
    assert node.tree() == applied


def test_results_have_paths_and_digests_and_no_content(node: Node):
    files = node.results("apply")["files"]
    assert [each["path"] for each in files["mlx5"]] == ["/etc/modprobe.d/rdmaprov.conf"]
    assert all(each["after"] != each["before"] for own in files.values() for each in own)
    assert "caf" not in json.dumps(files)


def test_file_that_was_changed_since_is_named_and_nothing_is_touched(node: Node):
    run = node.run
    with (node.etc / FILE).open("a") as file:
        file.write("# mine\n")
    changed = node.tree()
    code, said = node.revert(run)
    assert code == ExitCode.FAILED, said
    assert "mlx5: /etc/modprobe.d/rdmaprov.conf was changed since. It is left alone" in said
    assert node.tree() == changed
    code, said = node.revert(run, "--roles", "limits")
    assert code == ExitCode.OK, said
    assert not (node.etc / LIMITS).exists()
    assert b"# mine" in (node.etc / FILE).read_bytes()


def test_what_was_cut_is_continued(node: Node):
    before, run = node.before, node.run
    (index,) = node.directory.glob("node/state/replaced/*/index.json")
    kept = json.loads(index.read_text())["files"]
    back = next(each for each in kept if each["path"] == f"/etc/{FILE}")
    (node.etc / FILE).write_bytes((index.parent / back["content"]).read_bytes())
    _, mode, *owner = before[str(node.etc / FILE)]
    (node.etc / FILE).chmod(mode)
    os.chown(node.etc / FILE, *owner)
    code, said = node.revert(run)
    assert node.tree() == before, said
    assert code == ExitCode.PENDING, said
    assert (node.results("revert")["state"], node.results("revert")["stays"]) == ("changed", [])


def test_terminal_is_asked_once_and_no_means_no(node: Node):
    run = node.run
    applied = node.tree()
    asked = spawn("revert", "site", run, cwd=node.directory)
    asked.expect(rf"Take back {run} on 1 node\? \[y/N\]: ")
    assert "reboot required after revert" in asked.before
    asked.sendline("n")
    assert finish(asked)[0] == ExitCode.PENDING
    assert node.tree() == applied


def test_other_run_that_changed_a_file_is_named(node: Node):
    run = node.run
    variables = VARIABLES.replace("prof_sel: 1", "prof_sel: 0")
    write(node.directory / "site", {"group_vars/nodes.yml": variables})
    later = node.apply()
    code, said = node.revert(run)
    assert code == ExitCode.FAILED, said
    assert f"was changed since by the run {later}: revert that one first" in said


def test_what_is_gone_or_unknown_is_never_green(node: Node):
    run = node.run
    shutil.rmtree(node.directory / "node/state/replaced")
    code, said = node.revert(run)
    assert (code, f"{run} is gone" in said) == (ExitCode.FAILED, True), said
    code, said = node.revert("20200101-000000-apply")
    assert (code, "n1: unknown: nothing is kept there" in said) == (ExitCode.UNKNOWN, True), said


def test_what_is_no_run_of_apply_here_is_refused(node: Node):
    code, said = node.revert("../site")
    assert (code, "is not the name of a run" in said) == (ExitCode.USAGE, True), said
    rdmaprov(node.directory, "plan", "site", "--roles", "limits")
    (plan,) = node.directory.glob("runs/*-plan")
    code, said = node.revert(plan.name)
    assert (code, "is a run of plan on" in said) == (ExitCode.USAGE, True), said
