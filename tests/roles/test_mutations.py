"""The plan of a role sees every change to what the role made, and docs/undo.md undoes it."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from plugins.module_utils.converge import converge
from plugins.module_utils.links import MANAGERS
from plugins.module_utils.probed import PROTOCOL
from plugins.module_utils.roles import ORDER
from plugins.module_utils.survey import survey
from tests.roles import hugepages_node, mutations
from tests.roles.fake import FakeMachine
from tests.roles.role_cases import CASES, Case, carry_out

from rdmaprov.drift.fleet import judge_answer
from rdmaprov.probe.connection import Answer

# What a role leaves on a node that is no setting of it.
NO_SETTING = {
    "/run/rdmaprov/": "marks of what was not read again, gone with the boot",
    "/var/lib/rdmaprov/": "what a role remembers, to be found out anew or to be forgotten",
}


def is_right(case: Case, node: FakeMachine) -> bool:
    name = ORDER[0]
    found = survey(node, {name: case.arguments}, lambda _, *given: case.role.plan(*given))
    answer = json.dumps({"protocol": PROTOCOL, **found, "boot_id": "67b5"})
    return not judge_answer(Answer(0, answer, ""), [name]).why


def test_each_change_is_seen(case: Case, written: set[str], tmp_path: Path):
    node = case.node(tmp_path / "node")
    before = mutations.files(node), mutations.plain(node)
    carry_out(case, node)
    if isinstance(node, hugepages_node.Node):
        node.boot()  # pages of 1 GiB come with one
    assert is_right(case, node)
    found = [
        *mutations.of_files(node, before[0], written),
        *mutations.of_memory(node, before[1], "node"),
    ]
    ignored = [*NO_SETTING, *case.ignored]
    found = [each for each in found if not any(re.search(one, each.name) for one in ignored)]
    missed = []
    for each in found:
        each.do()
        if is_right(case, node):
            missed.append(each.name)
        each.undo()
    assert is_right(case, node)  # so each was undone, and was seen alone
    assert len(found) >= case.least
    assert "\n".join(missed) == ""


def test_check_mode_changes_nothing(case: Case, tmp_path: Path):
    node = case.node(tmp_path / "node")
    before = mutations.files(node), mutations.plain(node)
    assert converge(node, case.role, case.arguments, check=True)["changed"]
    files = mutations.files(node)
    files.pop("/run/rdmaprov/rdma_cm.lock", None)  # who reads the modes of RDMA CM holds it
    assert (files, mutations.plain(node)) == before


def test_each_role_is_altered():
    assert {case.role.__name__.rpartition(".")[2] for case in CASES.values()} >= {*ORDER}


ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "undo.md").read_text()
SUPPORTED = (ROOT / "docs" / "supported.md").read_text()
# Written, and put right or kept by other commands of the page.
KEPT = {
    "/run/": "gone with the boot",
    "/boot/grub/grub.cfg": "update-grub makes it anew",
    "/etc/nccl.conf.backup-": "what was there before",
    "/sys/": "gone with the boot",
    "/proc/": "gone with the boot",
}


def section(role: str) -> str:
    found = re.search(rf"(?ms)^### {role}$(.*?)(?=^##|\Z)", PAGE)
    assert found, f"docs/undo.md does not say how to undo {role}"
    return found[1]


def blocks(text: str) -> list[str]:
    return re.findall(r"(?ms)^```\n(.*?)^```", text)


def removed(text: str) -> list[str]:
    lines = "".join(blocks(text)).splitlines()
    found = [re.match(r"rm -r?f (.+?)(?: +(?:#|&&).*)?$", line.strip()) for line in lines]
    return [word for each in found if each for word in each[1].split()]


def undo(root: Path, role: str) -> None:
    for pattern in removed(section(role)):
        assert pattern.startswith("/")
        for path in root.glob(pattern[1:]):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def test_commands_remove_what_the_role_wrote(case: Case, written: set[str], tmp_path: Path):
    node = case.node(tmp_path / "node")
    carry_out(case, node)
    ours = {path for path in written if node.exists(path) and not path.startswith((*KEPT,))}
    assert ours or case.arguments.get("kind") == "container"  # which is no file
    role = next(name for name in CASES if CASES[name] is case).split()[0]
    undo(Path(node.root), {"links": "fabric"}.get(role, role))
    assert sorted(path for path in ours if node.exists(path)) == []


@pytest.mark.parametrize("role", [*ORDER, "reboot"])
def test_each_role_is_there(role: str):
    assert section(role).strip()


def test_commands_are_shell():
    for block in blocks(PAGE):
        subprocess.run(["sh", "-n"], input=block, text=True, check=True)


def test_each_link_manager_is_there():
    spec = yaml.safe_load((ROOT / "roles/fabric/meta/argument_specs.yml").read_text())
    options = spec["argument_specs"]["main"]["options"]["fabric_link_manager"]["choices"]
    assert {*options} - {"auto"} == {*MANAGERS}
    table = SUPPORTED.partition("## Link managers")[2].partition("\n## ")[0]
    assert {*re.findall(r"(?m)^\| ([\w-]+) \|", table)} >= {*MANAGERS}


def test_each_kind_of_evidence_is_explained():
    """Every row says how it is known, in one of the words that the page explains."""
    head, _, tables = SUPPORTED.partition("\n## ")
    explained = {*re.findall(r"(?m)^\| ([a-z ]+) \|", head)} - {"evidence"}
    rows = [line.split("|")[2].strip() for line in tables.splitlines() if line.startswith("| ")]
    rows = [each for each in rows if each != "evidence"]
    assert len(rows) > 30
    assert {word for each in rows for word in each.split(", ")} <= explained
