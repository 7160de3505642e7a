"""The health check that accept leaves, as Slurm runs it: a real Slurm of two nodes."""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from tests.cli.certified import SIZES, CertifiedFleet
from tests.cli.slurm_place import reasons
from tests.unit.helpers.slurm_cluster import need_slurm, running_cluster
from tests.unit.helpers.waiting import until

PAGE = Path(__file__).parents[2] / "docs/health-check.md"
LEFT, METRICS = "var/lib/rdmaprov/certificate.json", "var/lib/rdmaprov/health.prom"
HEALTH = "usr/local/lib/rdmaprov/health-check"
SERIAL = "sys/class/dmi/id/product_serial"
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as files on nodes are root's"),
    pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs /usr/bin/python3"),
]


def pause_s(name):
    return 30 * int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF


# Of the names that a node may have, two that wait for less than half a second before they act.
NAMES = tuple([name for name in (f"n{i}" for i in range(1000)) if pause_s(name) < 0.5][:2])


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """Return the directory of a node, as an acceptance leaves it."""
    need_slurm()
    place = tmp_path_factory.mktemp("left")
    made = CertifiedFleet(place)
    with contextlib.chdir(place):
        made.accept(*SIZES, "--leave-certificate")
    return made.roots["gpu001"]


@pytest.fixture(scope="module")
def slurm(left, tmp_path_factory):
    """Have a Slurm that runs the documented health check, each node in its own directory."""
    place = tmp_path_factory.mktemp("nodes")
    wrapper = place / "health-check"
    found = re.search(r"```\n(HealthCheckProgram=.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    recipe = found[1]
    assert f"=/{HEALTH}\n" in recipe
    recipe = recipe.replace(f"/{HEALTH}", str(wrapper)).replace("=300", "=1")
    with running_cluster(NAMES, recipe) as cluster:
        conf = cluster.environment["SLURM_CONF"]  # the test's is not in its usual place
        # Each check holds the lock to its end, so that none is under way while nodes are replaced.
        held = f"exec 9>>{place}/lock\nflock --shared 9\n[ ! -e {place}/hold ] || exit 0"
        program = f'exec {left}/{HEALTH} "{place}/$SLURMD_NODENAME"'
        wrapper.write_text(f"#!/bin/sh\nexport SLURM_CONF={conf}\n{held}\n{program}\n")
        wrapper.chmod(0o755)
        yield cluster, place


@pytest.fixture
def nodes(slurm, left):
    """Return the cluster and the directory of each node; all are valid and idle."""
    cluster, place = slurm
    roots = [place / name for name in NAMES]
    (place / "hold").touch()
    with (place / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a check of the test before would drain a node after all
        for root in roots:
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(left, root)
        cluster.ask("scontrol", "update", f"nodename={','.join(NAMES)}", "state=resume")
    (place / "hold").unlink()
    cluster.ask("scontrol", "reconfigure")  # a node that was resumed is asked at once
    assert until(lambda: reasons(cluster) == sorted(map(idle, NAMES))), reasons(cluster)
    assert all(until(partial(checked, root, 0)) for root in roots)
    return cluster, roots


def checked(root, code):
    """Return whether the check of a node has found this, since the last time."""
    path = root / METRICS
    if not path.exists():
        return False
    text = path.read_text()
    path.unlink(missing_ok=True)
    return f"rdmaprov_certificate_code {code}\n" in text


def edit(root, **changes):
    path = root / LEFT
    left = json.loads(path.read_text())
    signed = {**json.loads(left["signed"]), **changes}
    path.write_text(json.dumps({**left, "signed": json.dumps(signed)}))


def replace_machine(root, drains=None):
    if drains is not None:
        path = root / LEFT
        path.write_text(json.dumps({**json.loads(path.read_text()), "drains": drains}))
    (root / SERIAL).write_text("SN999\n")


def idle(name):
    return f"{name}|idle|none"


def seen_twice(roots, code):
    """Wait until the check has found this on each node twice, the second time from its begin."""
    for root in (*roots, *roots):
        assert until(partial(checked, root, code)), root


@pytest.mark.parametrize("what", ["expired", "kernel", "driver"])
def test_fleet_that_needs_proof_again_is_not_drained(nodes, what):
    cluster, roots = nodes
    for root in roots:
        if what == "expired":
            edit(root, issued="2020-01-01T00:00:00Z", valid_until="2020-02-01T00:00:00Z")
        else:
            name = {"kernel": "proc/sys/kernel/osrelease", "driver": "sys/module/nvidia/version"}
            (root / name[what]).write_text("999.9\n")
    seen_twice(roots, 4)
    assert reasons(cluster) == sorted(map(idle, NAMES))


def test_node_with_another_machine_is_drained_with_the_reason(nodes):
    cluster, (root, other) = nodes
    replace_machine(root)
    why = "rdmaprov: health: not valid: machine's serial number was SN000000, is SN999"
    wanted = sorted([f"{NAMES[0]}|drained|{why}", idle(NAMES[1])])
    assert until(lambda: reasons(cluster) == wanted), reasons(cluster)
    assert "rdmaprov_certificate_valid 1\n" in (other / METRICS).read_text()


def test_node_that_was_resumed_is_drained_again(nodes):
    """From 23.02 Slurm keeps the reason of a node that was resumed."""
    cluster, (root, _) = nodes

    def is_resumed():
        cluster.ask("scontrol", "update", f"nodename={NAMES[0]}", "state=resume")
        cluster.ask("scontrol", "reconfigure")  # a node that was resumed is asked at once
        return until(lambda: reasons(cluster)[0] == idle(NAMES[0]), 10)

    for _ in range(2):
        replace_machine(root)
        assert until(lambda: f"{NAMES[0]}|drained" in reasons(cluster)[0]), reasons(cluster)
        (root / SERIAL).write_text("SN000000\n")
        assert until(partial(checked, root, 0))
        # A slow check that had begun before may drain it once more.
        assert until(is_resumed), reasons(cluster)


@pytest.mark.parametrize("reason", ["bad board", "rdmaprov: replace stopped at accept: failed"])
def test_reason_of_somebody_else_survives(nodes, reason):
    cluster, (root, _) = nodes
    cluster.ask("scontrol", "update", f"nodename={NAMES[0]}", "state=drain", f"reason={reason}")
    replace_machine(root)
    seen_twice([root], 1)
    assert f"{NAMES[0]}|drained|{reason}" in reasons(cluster)


@pytest.mark.parametrize(("drains", "is_drained"), [(1, False), (2, True), (0, False)])
def test_no_more_nodes_are_drained_than_was_set(nodes, drains, is_drained):
    cluster, (root, other) = nodes
    replace_machine(root)
    assert until(lambda: any("drained" in line for line in reasons(cluster)))
    replace_machine(other, drains)
    if is_drained:
        assert until(lambda: all("drained|rdmaprov: health:" in line for line in reasons(cluster)))
    else:
        seen_twice([other], 1)
        assert idle(NAMES[1]) in reasons(cluster)
