"""The catalogues of faults and of shapes can be read, are whole, and what they name is sound."""

import itertools
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.tables import cases
from tests.unit.helpers.shell import shellcheck

from rdmaprov.cli import run
from rdmaprov.errors import RdmaprovError, UnreachableError, UsageError
from rdmaprov.lab import faults, login, model, monitor, shapes, site
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab, new_node
from rdmaprov.lab.qemu import Machine
from rdmaprov.lab.request import LabRequest
from rdmaprov.resources import data_dir

DIRECTORY = data_dir("lab") / "faults"
NAMES = sorted(path.stem for path in DIRECTORY.glob("*.sh"))
NODE = new_node("node1", 2222, 2)


def test_catalogue_has_every_fault_by_its_name():
    """Which there must be, tests/mutants.yml says."""
    catalogue = faults.catalogue()
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
def test_fault_has_its_functions_and_none_of_the_librarys(name):
    library, script = (DIRECTORY / "lib").read_text(), faults.find(name).script
    shared, own = (set(re.findall(r"^(\w+)\(\) \{", each, re.M)) for each in (library, script))
    assert {"state", "inject", "heal"} <= own
    assert not (shared - {"still_there"}) & own


@pytest.mark.parametrize(
    ("now", "there"), cases(__file__, "addresses_are_exchanged_while_one_is_on_the_other_rail")
)
def test_addresses_are_exchanged_while_one_is_on_the_other_rail(tmp_path, now, there):
    (tmp_path / "before").write_text("ens1 10.0.0.1/24\nens2 10.0.1.1/24\n")
    (tmp_path / "after").write_text("ens1 10.0.1.1/24\nens2 10.0.0.1/24\n")
    (tmp_path / "seen").write_text(now)
    script = (DIRECTORY / "lib").read_text() + faults.find("rail-addresses-swapped").script
    script += f'record={tmp_path}\nstate() {{ cat "$record/seen"; }}\nstill_there\n'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0 if there else 1, "")


def test_scripts_have_no_shellcheck_finding(tmp_path):
    """The library once; to look at it again before each fault would take seconds."""
    names = re.findall(r"(?:^|[\s;])(\w+)=", (DIRECTORY / "lib").read_text())
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


DOCS = Path(__file__).parents[3] / "docs"


def create(tmp_path, **options):
    layout = Layout(tmp_path / "lab", tmp_path / "cache")
    (tmp_path / "lab").mkdir(exist_ok=True)
    return LabRequest(accel=Accel.TCG, **options).create(layout, print)


def argv(tmp_path, node, **options):
    machine = Machine(
        node=node,
        directory=tmp_path / "node1",
        accel=Accel.TCG,
        memory_mib=2048,
        switch=tmp_path / "switch",
        **dict.fromkeys(("torch_disk", "authorized_keys", "host_key"), tmp_path / "file"),
        **options,
    )
    return machine.argv()


@pytest.mark.parametrize("shape", shapes.catalogue().values(), ids=lambda shape: shape.name)
def test_shape_is_listed_by_the_program_and_the_docs(shape, capsys):
    assert run(["lab", "shapes"]) == 0
    assert f"{shape.name}: {shape.title}\n" in capsys.readouterr().out
    assert f"| `{shape.name}` | {shape.title} |\n" in (DOCS / "lab-shapes.md").read_text()


def test_plain_lab_has_no_factory_script(tmp_path):
    assert shapes.find(None).script() == ""
    assert not any(
        "/factory,file=" in word for word in argv(tmp_path, model.new_node("node1", 40001, 2))
    )


def test_shape_is_kept_and_another_one_refused(tmp_path):
    made = create(tmp_path, shape="renamed")
    assert Lab.load(tmp_path / "lab" / "lab.json") == made
    LabRequest().refuse_difference(made)
    LabRequest(shape="renamed").refuse_difference(made)
    with pytest.raises(UsageError, match="--shape bond: the existing lab has renamed"):
        LabRequest(shape="bond").refuse_difference(made)


def test_bond_has_two_nics_on_one_plane_and_one_rdma_device(tmp_path):
    made = create(tmp_path, shape="bond")
    assert [rail.rdma for rail in made.nodes[0].rails] == ["mlx5_bond_0", "mlx5_bond_1"]
    words = argv(tmp_path, made.nodes[0], factory=tmp_path / "factory.sh")
    planes = [word.rpartition("/")[2] for word in words if word.startswith("dgram,")]
    assert planes == ["rail0", "rail0", "rail1", "rail1"]
    assert len({mac for rail in made.nodes[0].rails for mac in rail.macs}) == 4
    rails = " ".join("+".join(rail.macs) for rail in made.nodes[0].rails)
    assert any(word.endswith(f"/rails,string={rails}") for word in words)
    assert any(word.endswith(f"/factory,file={tmp_path}/factory.sh") for word in words)


def test_replaced_node_keeps_its_kind(tmp_path):
    old = create(tmp_path, shape="bond").nodes[1]
    new = model.replacement(old)
    assert [len(rail.macs) for rail in new.rails] == [2, 2]
    assert (new.name, new.port) == (old.name, old.port)
    assert not {mac for rail in new.rails for mac in rail.macs} & set(old.rails[0].macs)


def test_more_nics_than_slots_are_refused(tmp_path):
    with pytest.raises(UsageError, match="--rails 5: with 2 NICs each"):
        create(tmp_path, shape="bond", rails=5)


def test_numa_has_all_rails_on_the_second_numa_node(tmp_path):
    words = argv(tmp_path, model.new_node("node1", 40001, 2), numa=shapes.find("numa").numa)
    bridges = [word for word in words if word.startswith("pxb-pcie")]
    assert [",numa_node=1," in word for word in bridges] == [True, True]


def test_storage_has_its_last_rail_for_storage():
    use = [entry.get("use") for entry in shapes.find("storage").entries(1, ["a", "b", "c"])]
    assert use == [None, None, "storage"]


def test_site_names_the_vlans_and_not_their_nics():
    assert shapes.find("vlan").entries(2, ["ens1", "ens2"]) == [
        {"netdev": "ens1.100", "address": "198.18.0.2/24", "vlan": True},
        {"netdev": "ens2.101", "address": "198.18.1.2/24", "vlan": True},
    ]


def test_nodes_take_several_shapes_in_turn(tmp_path):
    made = create(tmp_path, shape="bond,renamed,storage", nodes=4)
    assert [node.rails[0].rdma for node in made.nodes] == [
        "mlx5_bond_0",
        "mlx5_0",
        "mlx5_0",
        "mlx5_bond_0",
    ]
    assert {len(node.rails) for node in made.nodes} == {3}  # as one of them wants
    kinds = shapes.of_nodes(made.shape, 4)
    assert [shape.name for shape in kinds] == ["bond", "renamed", "storage", "bond"]
    made = replace(made, site=str(tmp_path / "site"))
    hosts = yaml.safe_load(
        site.write(Layout(tmp_path / "lab", tmp_path / "cache"), made).read_text()
    )
    rails = [host["fabric_rails"][2].get("use") for host in hosts["lab"]["hosts"].values()]
    assert rails == [None, None, "storage", None]


def test_nodes_of_two_suites_have_two_images_and_a_replaced_one_keeps_its_own(tmp_path):
    made = create(tmp_path, shape="bookworm,trixie", nodes=3)
    suites = [made.image_of(node.name).partition("-")[0] for node in made.nodes]
    assert suites == ["bookworm", "trixie", "bookworm"]
    assert Lab.load(tmp_path / "lab" / "lab.json") == made
    assert made.with_node(model.replacement(made.nodes[1])).image_of("node2") == made.image_of(
        "node2"
    )


@pytest.mark.parametrize(("shape", "limit_s"), [("vlan", 480), ("numa", 240)])
def test_node_that_boots_twice_gets_the_time_of_two_boots(shape, limit_s, tmp_path, monkeypatch):
    now = itertools.count(step=80)
    monkeypatch.setattr("rdmaprov.lab.login.time.monotonic", lambda: float(next(now)))
    monkeypatch.setattr("rdmaprov.lab.login.time.sleep", lambda _: None)
    monkeypatch.setattr("rdmaprov.lab.ssh.answers", lambda *_: False)
    waiting = login.Login(Layout(tmp_path, tmp_path), is_running=lambda _: True)
    node = model.new_node("node1", 40001, 2)
    with pytest.raises(UnreachableError, match=f"no answer over ssh within {limit_s} s"):
        waiting.wait_for_boot(node, shapes.find(shape).boots)
    assert next(now) == limit_s + 160  # one look before the first, one after the last
