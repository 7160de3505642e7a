"""The catalogue of faults can be read, is whole, and its scripts are sound."""

from __future__ import annotations

import re
import subprocess

import pytest
from tests.unit.helpers.shell import shellcheck

from rdmaprov.errors import RdmaprovError, UnreachableError, UsageError
from rdmaprov.lab import faults, monitor
from rdmaprov.lab.model import new_node
from rdmaprov.resources import data_dir

DIRECTORY = data_dir("lab") / "faults"
NAMES = sorted(path.stem for path in DIRECTORY.glob("*.sh"))
NODE = new_node("node1", 2222, 2)
WANTED = {
    "mtu-wrong",
    "pfc-wrong-priority",
    "pfc-two-priorities",
    "trust-pcp",
    "dscp-entry-lost",
    "ets-changed",
    "tos-lost",
    "hugepages-short",
    "hugepages-one-node",
    "module-parameter-not-running",
    "module-parameter-not-configured",
    "peermem-unloaded",
    "memlock-limited",
    "rdma-link-down",
    "rail-addresses-swapped",
    "rail-without-ipv4-gid",
    "rail-drops-packets",
    "rail-slow",
    "rail-overflow",
    "driver-version-different",
    "nccl-conf-stale",
    "numa-balancing-on",
    "disk-full",
    "dpkg-lock-held",
    "sshd-hangs",
}


def test_catalogue_has_every_fault_by_its_name():
    catalogue = faults.catalogue()
    assert set(catalogue) >= WANTED
    assert list(catalogue) == NAMES
    assert all(fault.name == name for name, fault in catalogue.items())


@pytest.mark.parametrize("name", NAMES)
def test_fault_is_titled_and_stands_for_one_sentence(name):
    fault = faults.find(name)
    assert not fault.title.endswith(".")
    assert fault.stands_for.endswith(".")
    assert "\n" not in fault.stands_for
    assert len(re.findall(r"[.!?](?: |$)", fault.stands_for)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_fault_has_its_functions(name):
    functions = re.findall(r"^(\w+)\(\) \{$", faults.find(name).script, re.MULTILINE)
    assert {"state", "inject", "heal"} <= set(functions)


@pytest.mark.parametrize("name", NAMES)
def test_fault_does_not_redefine_the_library(name):
    library = (DIRECTORY / "lib").read_text()
    shared = set(re.findall(r"^(\w+)\(\) \{", library, re.MULTILINE)) - {"still_there"}
    assert not shared & set(re.findall(r"^(\w+)\(\) \{", faults.find(name).script, re.MULTILINE))


@pytest.mark.parametrize(
    ("now", "there"),
    [
        ("ens1 10.0.1.1/24\nens2 10.0.0.1/24\n", True),
        ("ens1 10.0.1.1/24\nens1 10.0.0.1/24\nens2 10.0.0.1/24\n", True),  # networkd's own again
        ("ens1 10.0.0.1/24\nens2 10.0.1.1/24\n", False),
        ("ens1 10.0.0.9/24\nens2 10.0.1.9/24\n", False),
    ],
)
def test_addresses_are_exchanged_while_one_is_on_the_other_rail(tmp_path, now, there):
    (tmp_path / "before").write_text("ens1 10.0.0.1/24\nens2 10.0.1.1/24\n")
    (tmp_path / "after").write_text("ens1 10.0.1.1/24\nens2 10.0.0.1/24\n")
    (tmp_path / "seen").write_text(now)
    script = (DIRECTORY / "lib").read_text() + faults.find("rail-addresses-swapped").script
    script += f'record={tmp_path}\nstate() {{ cat "$record/seen"; }}\nstill_there\n'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0 if there else 1, "")


@pytest.mark.parametrize("name", ["lib", *(f"{name}.sh" for name in NAMES)])
def test_script_is_shell(name):
    done = subprocess.run(["sh", "-n", DIRECTORY / name], capture_output=True, check=False)
    assert done.stderr == b""


def test_scripts_have_no_shellcheck_finding(tmp_path):
    """The library once; to look at it again before each fault would take seconds."""
    library = (DIRECTORY / "lib").read_text()
    names = re.findall(r"(?:^|[\s;])(\w+)=", library)
    for name in NAMES:
        script = (DIRECTORY / f"{name}.sh").read_text()
        (tmp_path / name).write_text("".join(f"{each}=\n" for each in names) + script)
    # SC2034, SC2317, SC2329: what the library and a fault use of each other
    scripts = [DIRECTORY / "lib", *map(tmp_path.joinpath, NAMES)]
    assert shellcheck(*scripts, leave_out="SC2034,SC2317,SC2329") == ""


def test_unknown_fault_names_the_nearest():
    with pytest.raises(UsageError, match="'mtu-wrnog'; did you mean mtu-wrong"):
        faults.find("mtu-wrnog")


def test_fault_without_a_header_is_refused(tmp_path, monkeypatch):
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "bare.sh").write_text("inject() {\n\ttrue\n}\n")
    monkeypatch.setattr(faults, "data_dir", lambda _name: tmp_path)
    with pytest.raises(RdmaprovError, match=r"bare\.sh:1: no header"):
        faults.catalogue()


@pytest.fixture
def inside(monkeypatch):
    """Provide what is run inside the node, and the outcomes it is to have."""

    class Inside:
        scripts: list[str] = []  # noqa: RUF012
        outcomes: list[monitor.ProgramExit] = []  # noqa: RUF012

    def run_inside(_node, _directory, script, _timeout_s):
        Inside.scripts.append(script)
        return Inside.outcomes.pop(0)

    Inside.scripts, Inside.outcomes = [], []
    monkeypatch.setattr(monitor, "run_inside", run_inside)
    return Inside


@pytest.mark.parametrize(
    ("name", "last_line"),
    [
        ("mtu-wrong", "start mtu-wrong 1 /run/rdmaprov-lab/faults"),
        ("disk-full", "start disk-full node /var/lib/rdmaprov-lab/faults"),
    ],
)
def test_inject_records_where_the_fault_ends(inside, tmp_path, name, last_line):
    inside.outcomes = [monitor.ProgramExit(0, "", "")]
    faults.inject(faults.find(name), NODE, tmp_path, 1)
    assert inside.scripts[0].splitlines()[-1] == last_line


def test_inject_with_nothing_to_break_is_a_usage_error(inside, tmp_path):
    inside.outcomes = [monitor.ProgramExit(faults.NOTHING_TO_BREAK, "", "rail 0 trusts PCP\n")]
    with pytest.raises(UsageError, match=r"^node1: rail 0 trusts PCP$"):
        faults.inject(faults.find("trust-pcp"), NODE, tmp_path, 0)


def test_inject_that_failed_says_how_to_go_back(inside, tmp_path):
    inside.outcomes = [monitor.ProgramExit(1, "", "no memory")]
    with pytest.raises(RdmaprovError, match="trust-pcp ended with 1: no memory") as caught:
        faults.inject(faults.find("trust-pcp"), NODE, tmp_path, 0)
    assert caught.value.hint == "Run: rdmaprov lab heal node1"


def test_heal_takes_back_each_record_in_order(inside, tmp_path):
    inside.outcomes = [
        monitor.ProgramExit(0, "mtu-wrong.1.20\ndisk-full.node.10\n", ""),
        monitor.ProgramExit(0, "", ""),
        monitor.ProgramExit(0, "repaired\n", ""),
    ]
    healed = faults.heal(NODE, tmp_path)
    assert [str(each) for each in healed] == ["mtu-wrong of rail 1", "disk-full (repaired before)"]
    ends = [script.splitlines()[-1] for script in inside.scripts[1:]]
    assert ends == ["finish mtu-wrong.1.20", "finish disk-full.node.10"]


def test_heal_stops_at_what_does_not_go(inside, tmp_path):
    inside.outcomes = [
        monitor.ProgramExit(0, "mtu-wrong.1.20\ndisk-full.node.10\n", ""),
        monitor.ProgramExit(1, "", "no such device"),
    ]
    with pytest.raises(RdmaprovError, match="mtu-wrong ended with 1: no such device") as caught:
        faults.heal(NODE, tmp_path)
    assert caught.value.hint == "Run: rdmaprov lab reset node1"


def test_heal_of_an_unreachable_node_is_not_green(tmp_path):
    with pytest.raises(UnreachableError):
        faults.heal(NODE, tmp_path)
