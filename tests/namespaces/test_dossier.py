"""Dossiers of faults that ranks met on a real kernel: a slow rail, a wrong cable, wrong sums."""

import json
import subprocess
from datetime import UTC, datetime

import pytest
from tests import dossier_reader as reader
from tests.rank_hook import RANK_HOOK
from tests.site_runs import SiteRuns
from tests.tables import cases

from rdmaprov.cli import run

pytestmark = pytest.mark.long
WRONG_LATER = cases(str(__file__).replace("dossier", "accept"), "wrong_later")


def slow_rail(fleet):
    fleet.slow_down("node3", "rail1", "10mbit")


def wrong_cable(fleet):
    fleet.plug("node2", "rail0", "rail1")
    fleet.plug("node2", "rail1", "rail0")


def corrupting_rank(fleet):
    fleet.hook("node4", RANK_HOOK + WRONG_LATER)


@pytest.mark.parametrize(
    ("fault", "stages", "node", "part"),
    [
        (slow_rail, "pairs,fleet", "node3", "rail 1 of node3"),
        (wrong_cable, "preflight", "node2", "rail 0 of node2"),
        (corrupting_rank, "fleet", "node4", "rank 3 of node4"),
    ],
)
def test_the_part_is_named_and_a_stranger_believes_it(
    four_nodes, tmp_path, fault, stages, node, part
):
    runs = SiteRuns(four_nodes.directory, four_nodes.site)
    key = tmp_path / "operator"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (tmp_path / "allowed").write_text(f"ops@example.com {(tmp_path / 'operator.pub').read_text()}")
    fault(four_nodes)
    code, said = runs.run("accept", "--ignore-validate", "--sizes", "16K:64K", "--stages", stages)
    assert code == 1, said
    made = tmp_path / "dossier"
    words = ["dossier", str(runs.newest()), node, "--sign", str(key), "--output", str(made)]
    assert run(words) == 0
    reader.read(made / "dossier.json", tmp_path / "allowed", datetime.now(UTC))
    accused = json.loads((made / "dossier.json").read_text())["accused"]
    assert (accused["part"], accused["proven"]) == (part, True)
    assert part in (made / "dossier.html").read_text()
