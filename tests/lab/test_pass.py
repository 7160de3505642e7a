"""One whole pass on real machines, from factory nodes to an accepted and repaired fleet.

Its steps are those of the demonstration, and those that only a test needs. It never starts from a
saved state; what it provisioned is kept for the other tests of the lab.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import replace

import jsonschema
import pytest
from lab.demo import Step
from tests.lab import kept
from tests.lab.fleet import NODES, ROLES, SCHEMA, Fleet, leftovers_of_accept
from tests.lab.handle import PROVISIONED
from tests.report.chromium import chromium, require_readable

from lab import demo
from rdmaprov.exit_codes import ExitCode

pytestmark = pytest.mark.lab

OTHER = next(node for node in NODES if node != demo.NODE)
# A fault of each layer, by the role that repairs it.
FAULTS = {
    "mtu-wrong": "mtu",
    "hugepages-short": "hugepages",
    "memlock-limited": "limits",
    "module-parameter-not-configured": "mlx5",
    "rail-addresses-swapped": "fabric",
    demo.FAULT: "roce_qos",
    "numa-balancing-on": "pcie",
    "nccl-conf-stale": "nccl",
}
# Why a test may have nothing to judge on a node of the lab: no card, or the site does not say.
ACCEPTED = re.compile(
    r"virtio|Soft-RoCE|not open|no congestion control|vendor's driver"
    r"|inbox|the site |peermem_mode: off|torch_runtime_kind|keep|RoCE: |is empty|: \{\}"
    r"|no processors|does not scale CPU frequencies|no NUMA balancing|NVIDIA NIC|names no GPU"
    r"|not installed|on the wire|no IOMMU|no selected node|nothing translates|fabric_"
    r"|no NVIDIA GPU|TuneD does not run|no GPU has|: \[\]|which test_iommu|PFC storm prevention"
    r"|no LLDP daemon|know the neighbours|without a plan|subnet_manager_hosts|nccl_enroot: off"
)


@pytest.fixture(scope="module")
def lab(at_large):
    """Provide a lab of nodes that were never started before."""
    own = kept.key(kept.ROOT)
    with kept.kept_lab(kept.directory(), own, at_large, fresh=True) as handle:
        yield handle


@pytest.fixture(scope="module")
def fleet(lab, tmp_path_factory):
    return Fleet(lab, tmp_path_factory.mktemp("pass"))


@pytest.fixture(autouse=True)
def _begin_test():
    """Begin no test from a saved state, in place of the directory's fixture of this name."""


def place(steps: list[Step], verb: str) -> int:
    return next(at for at, step in enumerate(steps) if verb in step.command[1:])


def whole(steps: list[Step], site: str, lab: Iterable[str]) -> list[Step]:
    """Return the steps of the demonstration with those that only a test needs."""
    own = ["rdmaprov", "lab", *lab]
    at = place(steps, "apply") + 1
    steps[at:at] = [
        Step("Apply it again", ["rdmaprov", "apply", site]),
        Step("Start the other node anew", [*own, "reboot", OTHER]),
    ]
    at = place(steps, "fault")
    # Without a card nothing loads the driver that has a fault's parameters.
    load = [*own, "ssh", demo.NODE, "--", "modprobe", "mlx5_core"]
    more = [[*own, "fault", demo.NODE, fault] for fault in FAULTS if fault != demo.FAULT]
    steps[at:at] = [Step("Break it elsewhere, too", command) for command in (load, *more)]
    at = next(at for at, step in enumerate(steps) if step.codes == (ExitCode.FAILED,))
    whole_suite = [word for word in steps[at].command if word != demo.WRONG]
    steps[at] = replace(steps[at], command=[*whole_suite, "--limit", demo.NODE])
    again = ["rdmaprov", "apply", site, "--drifted"]
    steps.insert(place(steps, "report"), Step("Find nothing to repair", again))
    return steps


def test_factory_nodes_become_an_accepted_fleet_and_stay_so(lab, fleet, tmp_path, capfd):
    own = ["--dir", str(lab.directory)]
    steps = whole(demo.steps(str(fleet.site), own), str(fleet.site), own)
    assert demo.run(steps, fleet.directory, own) == ExitCode.OK, capfd.readouterr().out
    said = capfd.readouterr().out
    planned, applied, again, repaired, nothing = by_verb(fleet, "plan", "apply")
    assert changes(planned) == dict.fromkeys(NODES, ROLES)
    assert changes(applied) == changes(planned)
    assert changes(again) == changes(nothing) == dict.fromkeys(NODES, ())
    assert "2 nodes: 2 pending" in said
    assert "2 nodes: 2 changed" in said
    assert "2 nodes: 2 unchanged\n" in said
    assert changes(repaired) == {OTHER: (), demo.NODE: in_order(FAULTS.values())}
    assert "2 nodes: 1 unchanged (probed), 1 changed" in said
    assert "2 nodes: 2 unchanged (probed)" in said

    healthy, broken, mended = by_verb(fleet, "validate")
    judge_healthy(healthy)
    failed = {file_of(check) for check in of(broken, "failed")}
    assert {f"test_{role}.py" for role in FAULTS.values()} <= failed
    assert of(mended, "failed") == []
    wrong = f"{demo.NODE} {lab.netdev(demo.NODE, 0)}: running: PFC is on for priority 4, expected 3"
    assert wrong in said

    (accepted,) = by_verb(fleet, "accept")
    judge_accepted(accepted)
    assert "Not verified: GPU bandwidth" in said
    assert leftovers_of_accept(lab) == ["", ""]
    judge_pages(fleet, tmp_path)
    for node in NODES:
        lab.must("heal", node)
    lab.keep(PROVISIONED)


@pytest.mark.parametrize("rail", [0, 1])
def test_rail_of_the_node_that_started_anew_carries_jumbo_frames(lab, rail):
    lab.run(OTHER, f"ping -q -c 2 -W 5 -M do -s 4172 198.18.{rail}.{NODES.index(demo.NODE) + 1}")


def test_parameter_of_the_module_is_set_after_a_boot(lab):
    """Without a card nothing loads the module."""
    prof_sel = "modprobe mlx5_core; cat /sys/module/mlx5_core/parameters/prof_sel"
    assert lab.run(OTHER, prof_sel).strip() == "1"


def by_verb(fleet, *verbs):
    directories = sorted((fleet.directory / "runs").glob("2*"))
    kept_runs = [each for each in directories if each.name.rpartition("-")[2] in verbs]
    return [json.loads((each / "results.json").read_text()) for each in kept_runs]


def changes(results):
    return {name: tuple(node["changes"]) for name, node in sorted(results["nodes"].items())}


def in_order(roles):
    return tuple(sorted(roles, key=ROLES.index))


def of(results, outcome):
    return [check for check in results["checks"] if check["outcome"] == outcome]


def file_of(check):
    return check["test"].partition("::")[0].rpartition("/")[2]


def judge_healthy(results):
    assert {check["outcome"] for check in results["checks"]} == {"skipped"}
    for node in NODES:
        counts = results["nodes"][node]
        assert counts["state"] == "passed"
        assert set(counts["subjects"]) >= set(FAULTS.values()), "a role that nothing judged"
        assert all(counts["subjects"][role].get("passed") for role in FAULTS.values())
    skipped = [check["message"] for check in of(results, "skipped")]
    assert [reason for reason in skipped if not ACCEPTED.search(reason)] == []


def judge_accepted(results):
    jsonschema.validate(results, SCHEMA)
    assert (results["verdict"], results["world_size"]) == ("ok", 2)
    assert [plane["name"] for plane in results["planes"]] == ["rail 0", "rail 1"]
    for plane in results["planes"]:
        assert plane["sizes_checked"] == [1 << power for power in range(16, 18)]
        assert {row["bytes"] for row in plane["rows"]} == set(plane["sizes_checked"])
        assert {(pair["from"], pair["to"]) for pair in plane["pairs"]} == {NODES, NODES[::-1]}


def judge_pages(fleet, directory):
    pages = sorted((fleet.directory / "runs").glob("2*/report.html"))
    assert len(pages) == len(sorted((fleet.directory / "runs").glob("2*/results.json")))
    with chromium(directory) as browser:
        for page in pages:
            require_readable(browser, page, "light")
