"""Bundles go out by rings, each behind a proven one; and back, by one command."""

import json
from pathlib import Path

import pytest
from tests.cli.test_pull import key
from tests.program import call
from tests.unit.helpers.states import SignedFleet

from rdmaprov.drift import bundle
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory.site_files import site_digest

pytestmark = pytest.mark.program
OK, FAILED, USAGE, UNKNOWN = ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.UNKNOWN


class Rings(SignedFleet):
    """Three nodes of rings 1, 2 and 0; no state of any is known."""

    def __init__(self, place: Path) -> None:
        super().__init__(place, 3)
        self.key, self.out = key(place, "key"), place / "out"
        for name, ring in zip(self.names, (1, 2, 0), strict=True):
            path = self.site / "host_vars" / f"{name}.yml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"---\nfabric_pull_ring: {ring}\n")
            (self.states / f"{name}.state").unlink()
        self.change("first")

    def change(self, to: str) -> None:
        path = self.site / "group_vars/nodes.yml"
        text = path.read_text().partition("limits_sysctl")[0]
        path.write_text(f"{text}limits_sysctl: {{kernel.domainname: {to}}}\n")
        self.digests["site"] = site_digest(self.site)

    def compile(self, *words: str) -> tuple[int, str]:
        given = ("site", "--out", "out", "--key", self.key, "--roles", "limits", *words)
        done = call("compile", *given, cwd=self.place)
        return done.returncode, done.stdout + done.stderr

    def bundles(self) -> dict[str, tuple[int, str]]:
        found = {}
        for path in sorted(self.out.glob("*.bundle")):
            own = json.loads(json.loads(path.read_text())["signed"])
            setting = own["arguments"]["limits"]["sysctl"]["kernel.domainname"]
            found[path.stem] = own["number"], setting
        return found


@pytest.fixture
def fleet(tmp_path: Path) -> Rings:
    return Rings(tmp_path)


def test_ring_gets_its_bundles_behind_a_proven_one_and_a_bad_one_goes_back(fleet: Rings):
    first, second, last = fleet.names
    code, said = fleet.compile()
    assert (code, "--states" in said, fleet.bundles()) == (USAGE, True, {}), said
    assert fleet.compile("--states", "states", "--limit", last)[0] == USAGE
    for count, name in enumerate((first, second), 1):
        code, said = fleet.compile("--states", "states")
        assert (code, [*fleet.bundles()]) == (UNKNOWN, fleet.names[:count]), said
        waiting = f"{3 - count} node{'s' * (count == 1)} of later rings wait for {name}: unknown: "
        assert waiting in said
        fleet.write(name)
    assert fleet.compile("--states", "states")[0] == OK
    good = fleet.bundles()
    assert {setting for _, setting in good.values()} == {"first"}

    fleet.change("bad")
    fleet.write(first, "failed")
    code, said = fleet.compile("--states", "states")
    assert (code, f"2 nodes of later rings wait for {first}: failed: mtu" in said) == (FAILED, True)
    bad = fleet.bundles()
    assert (bad[first][1], bad[second], bad[last]) == ("bad", good[second], good[last])

    code, said = fleet.compile("--back")
    back = fleet.bundles()
    assert (code, said) == (OK, "out: 1 node went back to the bundle before\n")
    assert (back[first][1], back[first][0] > bad[first][0]) == ("first", True)
    assert (back[second], back[last]) == (good[second], good[last])
    code, said = fleet.compile("--states", "states")
    assert (code, "went back from this state of the site" in said) == (FAILED, True)
    code, said = fleet.compile("--back")
    assert (code, "no bundle before" in said) == (FAILED, True)
    assert fleet.bundles() == back
    fleet.change("corrected")
    assert fleet.compile("--states", "states")[0] == UNKNOWN
    assert fleet.bundles()[first][1] == "corrected"


def test_way_back_that_was_cut_is_continued(fleet: Rings):
    found = {name: {"site": "first", "node": name} for name in fleet.names}
    bundle.write(found, fleet.out, lambda _: b"")
    bundle.write(
        {name: {**own, "site": "bad"} for name, own in found.items()}, fleet.out, lambda _: b""
    )
    answers = iter([b""])
    with pytest.raises(StopIteration):
        bundle.back(fleet.out, lambda _: next(answers))
    assert bundle.back(fleet.out, lambda _: b"") == 2
    texts = [json.loads(path.read_text())["signed"] for path in fleet.out.glob("*.bundle")]
    assert {json.loads(text)["site"] for text in texts} == {"first"}
