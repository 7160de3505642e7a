"""A machine of the museum in another form is refused, and the museum has what it must have."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.unit.helpers import museum, museum_document
from tests.unit.helpers.museum import WrongMachine

ROOT = Path(__file__).resolve().parents[3]
GOOD = {
    "title": "A node",
    "shows": ["cx7", "ubuntu-22.04"],
    "sources": [{"url": "https://example.org/1", "what": "all of it"}],
    "left_out": "nothing",
    "commands": [{"argv": ["ofed_info", "-s"], "stdout": "ofed.txt"}],
    "files": {"/proc/cmdline": "quiet\n"},
    "expert": {"ofed": "doca", "notes": "for people"},
    "not_known": "the rest",
}
# Cards, systems and shapes of which the museum must have a machine.
REQUIRED = (
    "cx5", "cx6", "cx6lx", "cx7", "cx8", "bf2", "bf3", "dpu-mode", "vf", "lag", "grace", "amd-gpu",
    "dgx-os", "ubuntu-22.04", "ubuntu-24.04", "rhel9", "rocky", "sles", "vlan", "dcb",
)  # fmt: skip


def written(tmp_path: Path, **changed: object) -> Path:
    directory = tmp_path / "a-node"
    directory.mkdir()
    (directory / "ofed.txt").write_text("OFED-internal-25.07-0.9.7:\n")
    document = {key: each for key, each in {**GOOD, **changed}.items() if each is not None}
    (directory / "machine.yml").write_text(yaml.safe_dump(document))
    return directory


def test_machine_is_loaded(tmp_path: Path):
    machine = museum.load(written(tmp_path, taught="once"))
    assert machine.printed("ofed_info")[0].stdout == "OFED-internal-25.07-0.9.7:\n"
    assert machine.facts == {"ofed": "doca"}
    assert machine.files == {"/proc/cmdline": "quiet\n"}
    assert machine.taught == ("once",)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"colour": "red"}, "unknown key colour"),
        ({"expert": {"colour": "red"}}, "expert: unknown key colour"),
        ({"not_read": {"pfc": "why"}}, "not_read: unknown key pfc"),
        ({"title": None}, "there is no title"),
        ({"sources": []}, "sources: there is none"),
        ({"sources": [{"what": "all"}]}, "sources: there is no url"),
        ({"sources": [{"url": "http://example.org", "what": "all"}]}, "no https address"),
        ({"shows": ["Big One"]}, "shows: Big One is no class"),
        ({"commands": [{"argv": ["a"], "stdout": "none.txt"}]}, "no file 'none.txt' beside it"),
        ({"commands": [{"argv": "a b", "stdout": "ofed.txt"}]}, "argv is 'a b'"),
        ({"commands": [{"argv": ["a"], "stdout": "ofed.txt", "note": "x"}]}, "unknown key note"),
        ({"commands": [{"argv": ["a"], "stdout": "../a-node/ofed.txt"}]}, "beside it|lists"),
        ({"commands": []}, "nothing lists ofed.txt"),
        ({"files": {"proc/cmdline": "quiet"}}, "no path of a node's"),
        ({"files": {"/proc/cmdline": {"form": "x"}}}, "unknown key form"),
    ],
)
def test_other_forms_are_refused(tmp_path: Path, changed: dict[str, object], why: str):
    directory = written(tmp_path, **changed)
    with pytest.raises(WrongMachine, match=why):
        museum.load(directory)


def test_directory_without_a_machine_is_refused(tmp_path: Path):
    with pytest.raises(WrongMachine, match="there is no such file"):
        museum.load(tmp_path)
    (tmp_path / "machine.yml").write_text("a: [")
    with pytest.raises(WrongMachine, match="while parsing"):
        museum.load(tmp_path)


def test_museum_has_the_classes_that_it_must_have():
    machines = [museum.load(museum.MACHINES / name) for name in museum.names()]
    assert len(machines) >= 25
    assert set(REQUIRED) <= {each for machine in machines for each in machine.shows}
    assert len([each for each in machines if each.taught]) >= 5


def test_page_is_current():
    wanted = museum_document.markdown()
    assert (ROOT / "docs/machines.md").read_text() == wanted, (
        "run: python -m tests.unit.helpers.museum_document > docs/machines.md"
    )
