"""A plan that is kept and applied, and the question on a terminal; a node is this machine."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from tests.cli.namespaced import needs_namespace, rdmaprov, save
from tests.cli.test_busy import ONE, VARIABLES, WRITTEN, Node
from tests.program import finish, spawn

from rdmaprov.exit_codes import ExitCode

pytestmark = needs_namespace

SECRET = "hunter22-of-the-site"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, ONE)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Node, Callable[[], None]]:
    made = Node(tmp_path_factory.mktemp("planned"))
    kept(made)
    return made, save(made.directory)


@pytest.fixture
def planned(once: tuple[Node, Callable[[], None]]) -> Node:
    """Return a node whose plan is kept; another one needs no change."""
    once[1]()
    return once[0]


def kept(node: Node) -> dict[str, Any]:
    code, said = node.rdmaprov("plan", "--output", "plan.json")
    assert code == ExitCode.PENDING, said
    assert "plan: plan.json; do it with: rdmaprov apply plan.json" in said
    plan: dict[str, Any] = json.loads((node.directory / "plan.json").read_text())
    return plan


def apply_plan(node: Node, *words: str) -> tuple[int, str]:
    return rdmaprov(node.directory, "apply", "plan.json", *words)


def edit_plan(node: Node, **changes: object) -> None:
    path = node.directory / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def asked(node: Node, *words: str) -> pexpect.spawn:
    return spawn("apply", "site", "--roles", "mlx5", *words, cwd=node.directory)


def test_plan_is_applied_as_it_was_kept(planned: Node):
    node = planned
    plan = json.loads((node.directory / "plan.json").read_text())
    assert next(iter(plan)) == "rdmaprov_plan"
    assert [entry["nodes"] for entry in plan["plans"]] == [["n1"]]
    assert [each["layer"] for each in plan["plans"][0]["roles"]["mlx5"]["changes"]]
    assert (node.directory / "plan.json").stat().st_mode & 0o777 == 0o600
    shutil.move(node.directory / "plan.json", node.directory / "of no special name")
    code, said = rdmaprov(node.directory, "apply", "of no special name")
    assert code == ExitCode.PENDING, said  # a reboot, which reboot_policy does not allow
    assert node.written.exists()
    assert "1 node: 1 changed; reboot required on n1" in said
    (index,) = node.directory.glob("node/state/replaced/*-apply/index.json")
    (replaced,) = json.loads(index.read_text())["files"]
    assert (replaced["path"], replaced["kind"]) == ("/etc/modprobe.d/rdmaprov.conf", "absent")


def test_node_that_changed_since_is_refused_and_named(planned: Node):
    node = planned
    node.has("3")
    code, said = apply_plan(node)
    assert code == ExitCode.FAILED, said
    assert "n1: plan: changed since plan.json: mlx5: reboot (mlx5_core prof_sel is 2, " in said
    assert "is not pending any more; mlx5: reboot (mlx5_core prof_sel is 3, " in said
    assert not node.written.exists()


def test_node_that_needs_nothing_by_now_is_no_failure(planned: Node):
    node = planned
    node.has("1")
    node.written.write_text(WRITTEN)
    code, said = apply_plan(node)
    assert code == ExitCode.OK, said
    assert "1 node: 1 unchanged" in said


def test_site_that_changed_since_is_refused(planned: Node):
    node = planned
    variables = node.directory / "site/group_vars/nodes.yml"
    variables.write_text(VARIABLES.replace("prof_sel: 1", "prof_sel: 0"))
    code, said = apply_plan(node)
    assert code == ExitCode.USAGE, said
    assert "plan.json is of another site, or " in said
    assert "was changed since" in said
    assert not node.written.exists()


def test_plan_of_another_site_is_refused(planned: Node, tmp_path: Path):
    node = planned
    shutil.copytree(node.directory / "site", tmp_path / "other")
    (tmp_path / "other/group_vars/nodes.yml").write_text(VARIABLES + "# other\n")
    edit_plan(node, site=str(tmp_path / "other"))
    code, said = apply_plan(node)
    assert (code, "is of another site" in said) == (ExitCode.USAGE, True), said
    hosts = (node.directory / "site/hosts.yml").read_text().replace("n1:", "m1:")
    (tmp_path / "other/hosts.yml").write_text(hosts)
    code, said = apply_plan(node)
    assert (code, "n1 is no node of" in said) == (ExitCode.USAGE, True), said
    assert not node.written.exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"rdmaprov_plan": 2}', "is a plan of version 2, not 1"),
        ('{"rdmaprov_plan": 1}', "is a damaged plan"),
        ('{"rdmaprov_plan": 1, "site": 3, "plans": []}', "is a damaged plan"),
        ('{"rdmaprov_plan": ' + "[" * 100_000, "is a damaged plan"),
        ('{"site": "x", "rdmaprov_plan": 1}', "not a directory"),
    ],
)
def test_what_is_no_plan_says_so(tmp_path: Path, text: str, says: str):
    (tmp_path / "plan.json").write_text(text)
    code, said = rdmaprov(tmp_path, "apply", "plan.json")
    assert code in (ExitCode.USAGE, ExitCode.INVALID_SITE), said
    assert says in said
    assert len(said.splitlines()) <= 2


def test_plan_leaves_no_room_for_options_that_change_it(planned: Node):
    node = planned
    code, said = apply_plan(node, "--reboot", "if-needed")
    assert (code, "--reboot and a plan's file exclude each other" in said) == (2, True), said


def test_plan_has_no_secret(node: Node):
    """What the node has, where the site has the same text as a secret."""
    more = f"ansible_become_password: {SECRET}\n"
    (node.directory / "site/group_vars/nodes.yml").write_text(VARIABLES + more)
    node.has(SECRET)
    plan = kept(node)
    assert SECRET not in json.dumps(plan)
    assert "********" in json.dumps(plan)
    code, said = apply_plan(node)
    assert code == ExitCode.PENDING, said
    assert node.written.exists()


@pytest.mark.parametrize("words", [(), ("--reboot", "if-needed")])
def test_terminal_is_asked_once_and_no_means_no(node: Node, words: tuple[str, ...]):
    run = asked(node, *words)
    run.expect(r"Apply these changes to 1 node(, [^?]+)?\? \[y/N\]: ")
    assert ("interrupt traffic on 1, reboot 1" in run.after) == bool(words)
    assert "reboot required after apply" in run.before
    assert "prof_sel is 2, expected 1" in run.before
    run.sendline("n")
    assert finish(run)[0] == ExitCode.PENDING
    assert not node.written.exists()


def test_terminal_that_agrees_gets_what_it_was_shown(tmp_path: Path):
    node = Node(tmp_path)
    run = asked(node)
    run.expect("Apply these changes")
    run.sendline("y")
    run.expect("2 nodes: 1 changed, 1 unchanged")
    run.read()
    assert node.written.exists()


def test_node_that_changes_during_the_question_is_left_alone(node: Node):
    run = asked(node)
    run.expect("Apply these changes")
    (node.directory / "node/etc/modprobe.d/of-somebody.conf").write_text(
        "options mlx5_core prof_sel=3\n"
    )
    node.has("3")
    run.sendline("y")
    run.expect("the node changed since the plan was shown or kept")
    assert finish(run)[0] == ExitCode.FAILED
    assert not node.written.exists()


def test_nobody_is_asked_who_said_yes(node: Node):
    code, said = finish(asked(node, "--yes"))
    assert code == ExitCode.PENDING, said
    assert "Apply these changes" not in said
    assert node.written.exists()
