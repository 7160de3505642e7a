"""What an acceptance leaves on a node, and what the program there says, run as by Slurm."""

import contextlib
import json
import os
import shutil
import stat
import time
from pathlib import Path

import pytest
from tests.cli.certified import CertifiedFleet
from tests.tables import cases
from tests.unit.helpers.shell import execute

from rdmaprov.node.standing import differences, judge, seconds_of

SIZES = ("--sizes", "1G:2G")
LEFT, PROGRAM = "var/lib/rdmaprov/certificate.json", "usr/local/lib/rdmaprov/certificate"
HEALTH = "usr/local/lib/rdmaprov/health-check"
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as files on nodes are root's"),
    pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs /usr/bin/python3"),
]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    place = tmp_path_factory.mktemp("left")
    made = CertifiedFleet(place)
    with contextlib.chdir(place):
        made.accept(*SIZES)
        assert not any((root / "var").exists() for root in made.roots.values())
        made.accept(*SIZES, "--leave-certificate")
        yield made


@pytest.fixture
def node(fleet, tmp_path):
    root = tmp_path / "node"
    shutil.copytree(fleet.roots["gpu001"], root)
    return root


def check(root):
    done = execute([root / PROGRAM, root])
    assert done.stderr == ""
    [line] = done.stdout.splitlines()
    assert line.isprintable()
    return done.returncode, line


def test_files_are_root_s_alone_and_the_node_is_valid(node):
    for name, mode in ((LEFT, 0o600), (PROGRAM, 0o755), (HEALTH, 0o755)):
        own = (node / name).stat()
        assert (stat.S_IMODE(own.st_mode), own.st_uid) == (mode, 0)
    there = {path.name for name in (LEFT, PROGRAM) for path in (node / name).parent.iterdir()}
    assert there == {Path(name).name for name in (LEFT, PROGRAM, HEALTH)}
    code, line = check(node)
    assert (code, line.startswith("valid until 2")) == (0, True)


SERIAL = "sys/class/dmi/id/product_serial"
NIC = "sys/class/infiniband"
GPU = "proc/driver/nvidia/gpus/0000:01:00.0"
UUID = "GPU 0000:01:00.0: UUID was GPU-00000000-0000-4000-8000-000000000001, is GPU-1"


@pytest.mark.parametrize(
    ("file", "text", "says", "exits"), cases(__file__, "what_is_another_now_is_named")
)
def test_what_is_another_now_is_named(node, file, text, says, exits):
    (node / file).write_text(text)
    code, line = check(node)
    assert (code, says in line) == (exits, True), line
    assert line.startswith("not valid: " if exits == 1 else "proof needed again: ")


@pytest.mark.parametrize(
    ("gone", "says"),
    [
        (GPU, "GPU 0000:01:00.0: it is not there"),
        ("sys/class/net/rail1", "rail 1: the NIC rail1 is not there"),
    ],
)
def test_what_is_gone_is_named(node, gone, says):
    shutil.rmtree(node / gone)
    code, line = check(node)
    assert (code, says in line) == (1, True), line


def test_a_gpu_in_another_slot_is_named(node):
    place = node / "proc/driver/nvidia/gpus"
    (place / "0000:01:00.0").rename(place / "0000:07:00.0")
    assert check(node) == (1, "not valid: GPU 0000:01:00.0: it is now at 0000:07:00.0")


def test_a_uuid_that_the_driver_does_not_show_is_unknown(node):
    path = node / "proc/driver/nvidia/gpus/0000:00:00.0/information"
    path.write_text(path.read_text().replace("GPU-00000000", "GPU-????????"))
    code, line = check(node)
    assert (code, "cannot be read now" in line) == (4, True), line


def test_a_check_that_fails_blames_no_node(node):
    """Whatever goes wrong: 1 is for what is known to be wrong with the node."""
    path = node / PROGRAM
    broken = "def read_identity(x, y=0, *z):\\n    raise RuntimeError(5)\\ndef _("
    path.write_text(path.read_text().replace("def read_identity(", broken, 1))
    assert check(node) == (4, "unknown: the check failed: RuntimeError: 5")


@pytest.mark.parametrize(
    "change",
    [
        Path.unlink,
        lambda path: path.write_text('{"signed": "{}"}'),
        lambda path: path.chmod(0o666),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_bytes(b"\xff"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_unknown(node, change):
    change(node / LEFT)
    code, line = check(node)
    assert (code, line.startswith("unknown: ")) == (4, True), line


def test_it_expires_on_the_node(node):
    signed = json.loads(json.loads((node / LEFT).read_text())["signed"])
    end = seconds_of(signed["valid_until"])
    identity = signed["own"]["identity"]
    begin = seconds_of(signed["issued"])
    assert judge(signed, identity, begin + 1) == (0, f"valid until {signed['valid_until']}")
    assert judge(signed, identity, end - 1)[0] == 0
    said = f"proof needed again: expired at {signed['valid_until']}"
    assert judge(signed, identity, end + 1) == (4, said)
    code, line = judge(signed, identity, begin + 0.81 * (end - begin))
    assert (code, line.endswith("; accept again soon: 81% of its time is over")) == (0, True), line
    code, line = judge(signed, identity, seconds_of(signed["issued"]) - 60)
    assert (code, "this clock" in line) == (4, True)
    assert abs(end - time.time() - 30 * 86400) < 3600
    assert differences(identity, identity) == ([], [], [])


def test_a_node_that_was_refused_says_so_and_others_stay_valid(fleet, capfd):
    """Also from the controller; and a node on which nothing was left gets nothing."""
    fleet._fleet.condition.link_up[1, 0] = False
    try:
        assert fleet.run("accept", "site", *SIZES, "--leave-certificate") == 1
    finally:
        fleet._fleet.condition.link_up[1, 0] = True
    code, line = check(fleet.roots["gpu002"])
    assert (code, "refused this node: at 2" in line, "rail0 is down" in line) == (1, True, True)
    capfd.readouterr()
    assert fleet.run("certificate", "check", "site", "gpu002") == 1
    assert fleet.run("certificate", "check", "site", "gpu001") == 0
    said = capfd.readouterr().out.splitlines()
    assert said[0] == f"gpu002: {line}"
    assert said[1].startswith("gpu001: valid until 2")


def test_remedy_names_the_site_as_it_was_typed(fleet, capfd):
    """On the screen and in results.json; this copy of the site has never been validated."""
    shutil.copytree("site", "my site")
    assert fleet.run("accept", "my site", *SIZES) == 4
    command = "Run: rdmaprov validate 'my site'; or pass --ignore-validate"
    assert command in capfd.readouterr().out
    assert command in (fleet.newest() / "results.json").read_text()


def test_a_directory_that_others_can_change_gets_no_file(fleet, capfd):
    """The fleet passed, so the exit code says that something is unknown."""
    place = (fleet.roots["gpu001"] / LEFT).parent
    place.chmod(0o777)
    try:
        code = fleet.run("accept", "site", "--stages", "fleet", *SIZES, "--leave-certificate")
    finally:
        place.chmod(0o755)
    said = "".join(capfd.readouterr())
    assert (code, "gpu001: its certificate was not left there" in said) == (4, True)
    assert f"users other than root can change {place}" in said
    assert "left on 1 node" in said


@pytest.mark.parametrize("name", ["gpu*", "nobody"])
def test_a_name_that_is_no_node_s_is_refused(fleet, name, capfd):
    assert fleet.run("certificate", "check", "site", name) == 2
    assert "hint:" in capfd.readouterr().err
