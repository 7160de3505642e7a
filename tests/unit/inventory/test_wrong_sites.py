"""Wrong sites are refused at their cause, with what to write; real and shipped ones are valid."""

import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from tests.tables import cases
from tests.unit.helpers import sites
from tests.unit.helpers.sites import Wrong, raw_spec

from rdmaprov import contract
from rdmaprov.cli import run
from rdmaprov.cli.check import controller_note
from rdmaprov.contract.qos import NOTES
from rdmaprov.contract.subnet import _hosts
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import Fleet, Node, load_site, schema
from rdmaprov.lab import model, shapes, site
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab
from rdmaprov.problem import Position, Problem, fold_problems
from rdmaprov.resources import data_dir

CASES = sites.wrong_sites()
CONTROLLER = sorted(Path(schema.__file__).parent.glob("*_variables.yml"))


def found(site: Path) -> list[Problem]:
    return contract.problems(load_site(site))


@dataclass(frozen=True)
class Loaded:
    """A wrong site as Ansible reads it, and its problems."""

    case: Wrong
    fleet: Fleet
    problems: list[Problem]


# Of a module, so that pytest runs all tests of one site together: each is loaded once.
@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.id)
def wrong(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    case: Wrong = request.param
    fleet = load_site(sites.write(tmp_path_factory.mktemp("wrong") / "site", case.all_files()))
    return Loaded(case, fleet, contract.problems(fleet))


@pytest.fixture(scope="module")
def specs() -> dict[str, dict[str, Any]]:
    options: dict[str, dict[str, Any]] = {}
    for path in CONTROLLER:
        options |= yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"]
    for role in schema.load_shipped().roles:
        options |= raw_spec(role)
    return options


def test_wrong_site_is_refused_at_its_line(wrong: Loaded):
    site, case = wrong.fleet.site, wrong.case
    texts = [problem.text(site) for problem in wrong.problems]
    file, line = case.place()
    matching = [
        problem
        for problem, text in zip(wrong.problems, texts, strict=True)
        if problem.rule == case.rule and case.says in text
    ]
    assert matching, texts
    assert [(str(Path(p.position.file).relative_to(site)), p.position.line) for p in matching][
        :1
    ] == [(file, line)], texts


def test_remedy_is_never_the_value_that_is_wrong(wrong: Loaded):
    values = {key: str(value) for node in wrong.fleet.nodes for key, value in node.values.items()}
    for problem in wrong.problems:
        suggested = re.match(r"write (?:.*such as )?(\S+?)(?:,.*)?$", problem.remedy)
        assert not suggested or suggested[1] != values.get(problem.variable), problem


def test_what_is_accepted_ansible_accepts(wrong: Loaded, specs: dict[str, dict[str, Any]]):
    """Check is never looser than the argument specs that Ansible enforces on the node."""
    for node in wrong.fleet.nodes[:1]:
        spec = {key: text for key, text in specs.items() if key in node.values}
        assert ArgumentSpecValidator(spec).validate(dict(node.values)).error_messages == []


@pytest.mark.parametrize(
    "text", cases(__file__, "wrong_value_is_one_problem_however_many_are_derived_from_it")
)
def test_wrong_value_is_one_problem_however_many_are_derived_from_it(text: str, tmp_path: Path):
    (problem,) = found(sites.write(tmp_path, {**sites.GOOD, "group_vars/nodes.yml": text}))
    assert (problem.variable, problem.hosts) == (text.partition(":")[0], ("n1", "n2"))


def test_good_site_has_no_problems(tmp_path: Path):
    assert found(sites.write(tmp_path / "site", sites.GOOD)) == []


def test_every_rule_has_a_name_and_a_wrong_site():
    ids = [rule.id for rule in contract.RULES]
    assert len(ids) == len(set(ids))
    assert {*ids} - {case.rule for case in CASES} == NOTES
    assert len({case.id for case in CASES}) == len(CASES) >= 60


def test_small_neighbor_table_of_the_controller_is_noted(tmp_path):
    path = tmp_path / "proc/sys/net/ipv4/neigh/default/gc_thresh3"
    assert controller_note(2000, tmp_path) == ""  # not Linux, or a namespace
    path.parent.mkdir(parents=True)
    path.write_text("1024\n")
    assert controller_note(512, tmp_path) == ""
    said = controller_note(2000, tmp_path)
    assert "holds 1024 entries" in said
    assert said.endswith("sysctl -w net/ipv4/neigh/default/gc_thresh3=8000")


@pytest.mark.parametrize(
    ("gpus", "rails", "says"), cases(__file__, "rails_that_are_odd_and_may_be_right_are_a_note")
)
def test_rails_that_are_odd_and_may_be_right_are_a_note(gpus, rails, says, tmp_path, capsys):
    of = list(range(gpus))
    entries = "".join(f"  - {{netdev: '{name}', gpus: {of}}}\n" for name in rails)
    text = f"---\nfabric_kind: roce\nfabric_link_gbps: 400\nfabric_gpu_count: {gpus}\n"
    files = {**sites.GOOD, "group_vars/all.yml": f"{text}fabric_rails:\n{entries}"}
    code = run(["check", str(sites.write(tmp_path / "site", files))])
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert (code, bool(notes)) == (ExitCode.OK, bool(says)), notes
    assert says in "".join(notes)


@pytest.mark.parametrize("name", ["ens[1:8]", "ens1np0:ens8np0", "enp26s0f0-enp33s0f0"])
def test_name_that_is_several_and_none_to_linux_is_told_to_be_several(name: str, tmp_path: Path):
    text = sites.GOOD["group_vars/all.yml"].replace("ens1,", f"'{name}',")
    (problem,) = found(sites.write(tmp_path, {**sites.GOOD, "group_vars/all.yml": text}))
    assert (problem.rule, problem.remedy[:31]) == ("rails.named", "write an entry for each rail, s")


@pytest.mark.parametrize(
    ("kernel", "refused"), cases(__file__, "number_of_red_hats_kernels_does_not_tell")
)
def test_number_of_red_hats_kernels_does_not_tell(tmp_path: Path, kernel: str, refused: bool):
    more = f"peermem_kernel_version: {kernel}\npeermem_mode: dmabuf\n"
    site = {**sites.GOOD, "group_vars/all.yml": sites.GOOD["group_vars/all.yml"] + more}
    problems = contract.problems(load_site(sites.write(tmp_path / "site", site)))
    assert ("peermem.dmabuf" in {problem.rule for problem in problems}) is refused


NAMES = [f"ib{number:02}" for number in (7, 3, 5, 1, 6, 2, 4)]


def test_hosts_that_are_listed_twice_are_named_in_the_order_of_the_list():
    values = {"subnet_manager_hosts": [*NAMES, *NAMES]}
    node = Node("ib01", (), values, (), frozenset(), (), lambda *_: Position("site"))
    assert [found.message for found in _hosts(node)] == [
        f"{name} is listed 2 times" for name in NAMES
    ]


FIXTURES = Path(__file__).parents[2] / "fixtures"
SITES = sorted(path for path in (FIXTURES / "sites").iterdir() if path.is_dir())


@dataclass(frozen=True)
class Variant:
    """A site with one text replaced, and the problem that must be found in it."""

    id: str
    site: str
    old: str
    new: str
    rule: str
    variable: str
    node: str
    says: str
    file: str = "group_vars/all.yml"

    def write(self, directory: Path) -> Path:
        site = directory / self.site
        shutil.copytree(FIXTURES / "sites" / self.site, site)
        text = (site / self.file).read_text()
        assert text.count(self.old) == 1, f"{self.site}/{self.file}: {self.old}"
        (site / self.file).write_text(text.replace(self.old, self.new))
        return site


VARIANTS = [
    Variant(**entry) for entry in yaml.safe_load((FIXTURES / "site_variants.yml").read_text())
]


def load(name: str) -> Fleet:
    return load_site(FIXTURES / "sites" / name)


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.name)
def test_site_is_valid_but_for_what_it_waives(site: Path):
    fleet = load_site(site)
    problems, waived = contract.judge(fleet)
    assert [problem.text(site) for problem in problems] == []
    listed = {entry["rule"] for node in fleet.nodes for entry in node.get("fabric_waivers")}
    assert {each.problem.rule for each in waived} == listed
    assert 2 <= len(fleet.nodes) <= 36


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.name)
@pytest.mark.parametrize("file", ["hosts.yml", "group_vars/all.yml"])
def test_site_names_its_references_first(site: Path, file: str):
    comment = re.match(r"---\n((?:#.*\n)+)", (site / file).read_text())
    assert comment
    assert "https://" in comment[1]
    assert "From there" in comment[1]


def test_page_of_clusters_lists_every_site():
    page = (FIXTURES.parents[1] / "docs" / "clusters.md").read_text()
    listed = set(re.findall(r"\(\.\./tests/fixtures/sites/([\w-]+)/", page))
    assert sorted(listed) == [site.name for site in SITES]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.id)
def test_wrong_variant_is_refused(variant: Variant, tmp_path: Path):
    site = variant.write(tmp_path)
    problems, _ = contract.judge(load_site(site))
    matching = [p for p in problems if (p.rule, p.variable) == (variant.rule, variant.variable)]
    assert matching, [problem.text(site) for problem in problems]
    texts = [problem.text(site) for problem in matching if variant.node in problem.hosts]
    assert any(variant.says in text for text in texts), texts


def test_variants_are_many_and_of_every_site():
    assert len({variant.id for variant in VARIANTS}) == len(VARIANTS) >= 20
    assert {variant.site for variant in VARIANTS} == {site.name for site in SITES}


SHIPPED = {name: data_dir("inventory") / name for name in ("dgx", "ib")}


@pytest.mark.parametrize(
    ("site", "variable", "wanted"),
    [
        ("oci-h100", "roce_qos_pfc_priorities", [0, 5]),
        *(("spectrum-x", name, 96) for name in ("roce_qos_tos", "nccl_ib_tc")),
        ("gb200-nvl72", "fabric_nvlink_domain", "rack1"),
        ("dgx", "ofed_source", "keep"),
        ("dgx", "fabric_partition_keys", ["0xffff"]),
        ("ib", "nccl_ib_tc", 0),
        ("ib", "fabric_ib_generation", "NDR"),
    ],
)
def test_value_of_a_site_is_its_vendor_s(site: str, variable: str, wanted: object):
    nodes = load_site(SHIPPED.get(site, FIXTURES / "sites" / site)).nodes
    assert nodes[0].get(variable) == wanted
    if site == "gb200-nvl72":
        assert [node.get(variable) for node in nodes].count(wanted) == len(nodes) / 2 == 18


def test_hosts_that_are_no_nodes_are_left_out():
    storage = load("dgx-h100-superpod").nodes[0]
    assert (len(storage.compute_rails), len(storage.rails)) == (8, 10)
    names = {node.name for node in load("mixed-fleet").nodes}
    assert names == {f"h100-0{n}" for n in range(1, 9)} | {f"a100-0{n}" for n in range(1, 5)}


@pytest.mark.parametrize("name", ["prod", "ib", "dgx"])
def test_check_is_one_line_and_green(name: str, capsys: pytest.CaptureFixture[str]):
    assert run(["check", str(data_dir("inventory") / name)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    count = 16 if name == "ib" else 32
    assert captured.err.endswith(f"inventory/{name}: {count} nodes, 0 problems\n")


def lab(tmp_path: Path) -> Path:
    site = tmp_path / "lab"
    shutil.copytree(data_dir("inventory") / "lab", site, ignore=lambda *_: ["hosts.yml"])
    return site


@pytest.mark.parametrize("shape", [None, *shapes.catalogue()])
def test_lab_of_each_shape_is_silent_and_green(shape, tmp_path, capsys):
    wanted = shapes.find(shape)
    rails = range(wanted.rails or model.DEFAULT_RAILS)
    nodes = tuple(
        model.new_node(f"node{number}", 20000 + number, len(rails), wanted.nics).with_netdevs(
            {rail: f"ens{rail + 1}" for rail in rails}
        )
        for number in (1, 2)
    )
    made = Lab("bookworm", 2048, Accel.TCG, "image", "torch", str(lab(tmp_path)), nodes)
    hosts = site.write(Layout(tmp_path / "state", tmp_path / "cache"), replace(made, shape=shape))
    assert run(["check", str(hosts.parent)]) == 0
    assert capsys.readouterr().out == ""


def test_prod_has_two_racks_of_eight_routed_rails():
    nodes = load_site(data_dir("inventory") / "prod").nodes
    assert len(nodes) == 32
    assert {len(node.rails) for node in nodes} == {8}
    assert {str(node.rails[0].address.network) for node in nodes if node.rails[0].address} == {
        "10.1.0.0/24",
        "10.2.0.0/24",
    }
    assert nodes[0].get("peermem_mode") == "auto"


def found_at(tmp_path: Path, more: str, **hosts: str) -> dict[str, Problem]:
    everyone = sites.GOOD["group_vars/all.yml"] + more
    files = {f"host_vars/{name}.yml": text for name, text in hosts.items()}
    site = {**sites.GOOD, "group_vars/all.yml": everyone, **files}
    problems = contract.problems(load_site(sites.write(tmp_path / "site", site)))
    return {problem.rule: problem for problem in problems}


def test_node_that_derives_from_a_right_value_is_not_blamed(tmp_path: Path):
    problems = found_at(tmp_path, "", n2="fabric_lossless_priority: 9\n")
    assert {rule: problem.hosts for rule, problem in problems.items()} == {"range.value": ("n2",)}


def test_written_value_is_judged_beside_the_one_it_could_be_made_from(tmp_path: Path):
    problems = found_at(tmp_path, "fabric_lossless_priority: 9\nroce_qos_tos: 300\n")
    variables = {problem.variable for problem in problems.values()}
    assert variables == {"fabric_lossless_priority", "roce_qos_tos"} or "qos.tos" in problems


def test_what_no_file_states_is_one_problem_of_all_nodes(tmp_path: Path):
    everyone = sites.GOOD["group_vars/all.yml"].replace("fabric_link_gbps: 400\n", "")
    site = {**sites.GOOD, "group_vars/all.yml": everyone}
    (problem,) = contract.problems(load_site(sites.write(tmp_path / "site", site)))
    assert (problem.variable, problem.message) == ("fabric_link_gbps", "is missing")
    assert problem.hosts == ("n1", "n2")
    assert problem.position.line == 4  # n1 in hosts.yml


def test_other_problem_of_the_node_hides_nothing(tmp_path: Path):
    """The waived cause is no problem, so that what follows from it is one."""
    waiver = "fabric_waivers: [{rule: ets.lossless-alone, reason: x}]\n"
    problems = found_at(tmp_path, f"fabric_lossless_priority: 0\nfabric_mtu_bytes: 1500\n{waiver}")
    assert "mtu.netdev" in problems
    assert problems["ets.sum"].variable == "roce_qos_tc_percent"


def problem(message: str, host: str) -> Problem:
    return Problem(Position("all.yml", 3, 1), "fabric_rails", message, "write one", "x.y", (host,))


def test_three_messages_at_one_place_are_shown_and_more_are_one():
    four = [problem(f"address {number} is wrong", f"n{number}") for number in range(4)]
    assert fold_problems(four[:3]) == four[:3]
    (folded,) = fold_problems(four)
    assert folded.message == "address 0 is wrong (and 3 more here)"
    assert folded.hosts == ("n0", "n1", "n2", "n3")
