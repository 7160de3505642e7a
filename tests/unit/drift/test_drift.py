"""What a survey without Ansible asks of a node, and what its answer proves."""

import ast
import json
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible.vars.manager import VariableManager
from plugins.module_utils import shipped
from plugins.module_utils.qos import install
from tests.tables import cases
from tests.unit.helpers import sites
from tests.unit.helpers.shell import execute

from rdmaprov.drift import collection
from rdmaprov.drift.arguments import Arguments, NotCertain
from rdmaprov.drift.fleet import PROTOCOL, judge_answer, probe_fleet, request, survey_command
from rdmaprov.inventory import load_site
from rdmaprov.inventory.ansible_api import import_plugin, read_yaml
from rdmaprov.probe.connection import Answer
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.probe.target import Target
from rdmaprov.resources import data_dir

NOT_BEFORE_3_9 = ("Callable", "Iterator", "dict", "frozenset", "list", "set", "tuple", "type")
CHANGE = {"layer": "running", "device": "ens1", "setting": "MTU", "seen": "1500", "wanted": "9000"}
ENTRY = {"changes": [], "diff": [], "reboot": [], "notes": [], "waits": ""}


def survey(**changed):
    return {
        "protocol": PROTOCOL,
        "roles": {"mtu": ENTRY, "limits": ENTRY},
        "pending": [],
        "problems": [],
        "warnings": [],
        "boot_id": "67b5",
        **changed,
    }


def of_mtu(**changed):
    return {"mtu": {**ENTRY, **changed}, "limits": ENTRY}


def verdict(data, rc=0, err=""):
    text = data if isinstance(data, str) else json.dumps(data)
    return judge_answer(Answer(rc, text, err), ["mtu", "limits"])


def test_survey_with_nothing_to_do_is_a_proof():
    found = verdict(survey(warnings=["nccl: ~/.nccl.conf sets NCCL_IB_TC"]))
    assert found.why == ""
    assert found.warnings == ("nccl: ~/.nccl.conf sets NCCL_IB_TC",)
    assert found.survey is not None
    assert found.survey.pending == ()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (survey(pending=["mtu"], roles=of_mtu(changes=[CHANGE])), "pending: mtu"),
        (survey(roles=of_mtu(changes=[CHANGE])), "has changes of mtu, which is not pending"),
        (survey(roles=of_mtu(waits="no driver")), "has changes of mtu"),
        (survey(pending=["limits"]), "pending: limits"),
        (survey(problems=["mtu: ens1: no such device"]), "mtu: ens1: no such device"),
        (survey(roles=of_mtu(reboot=["1 GiB pages"])), "reboot required: 1 GiB pages"),
        (survey(protocol=PROTOCOL + 1), f"has another protocol than {PROTOCOL}"),
        (survey(protocol=None), "has another protocol"),
        (survey(roles={"mtu": ENTRY}), "covers other roles"),
        (survey(roles={}), "covers other roles"),
        (survey(roles={"mtu": {}, "limits": ENTRY}), "is incomplete"),
        (survey(pending=None), "is incomplete"),
        (survey(boot_id=""), "has no boot_id"),
        ([], "has another protocol"),
        ("", "is not JSON"),
        (json.dumps(survey())[:-2], "is not JSON"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_anything_else_is_none(data, why):
    found = verdict(data)
    assert why in found.why
    assert "\n" not in found.why


def test_survey_that_failed_says_why():
    found = verdict(survey(), rc=1, err="Traceback\nroot is required on the node\n")
    assert found.why == "survey failed with exit code 1: root is required on the node"
    unreachable = judge_answer(NodeUnreachable("n1: no route to the node", "Is it up?"), [])
    assert unreachable.why == "n1: no route to the node. Is it up?"


def given_by_ansible(site, name):
    loader = DataLoader()
    inventory = InventoryManager(loader, sources=[str(site)])
    host = inventory.get_host(name)
    variables = VariableManager(loader, inventory).get_vars(host=host)
    asked = import_plugin("plugin_utils.role_files").read_roles(
        [], lambda path: read_yaml(Path(path))
    )
    templar = Templar(loader, variables={**asked.defaults, **variables})
    convert = import_plugin("module_utils.arguments").convert_arguments
    return {
        role: convert(role, json.loads(json.dumps(templar.template(raw))))
        for role, raw in asked.arguments.items()
    }


@pytest.mark.parametrize("name", ["prod", "ib", "good"])
def test_arguments_are_those_that_ansible_gives(name, tmp_path):
    site = sites.write(tmp_path, sites.GOOD) if name == "good" else data_dir("inventory") / name
    fleet = load_site(site)
    arguments = Arguments(fleet, ())
    for node in (fleet.nodes[0], fleet.nodes[-1]):
        mine = arguments.of(node.name)
        assert mine == given_by_ansible(site, node.name)
        assert set(mine) == arguments.roles
    assert json.loads(json.dumps(mine)) == mine


def test_defaults_of_roles_that_are_not_asked_for_do_not_count(tmp_path):
    """As in a play: the role roce_qos alone knows nothing of nccl's."""
    more = {"group_vars/nodes.yml": "---\nroce_qos_tos: 4\nfabric_roce_dscp: 26\n"}
    fleet = load_site(sites.write(tmp_path, {**sites.GOOD, **more}))
    alone = Arguments(fleet, ["roce_qos"]).of("n1")
    assert list(alone) == ["roce_qos"]
    assert alone["roce_qos"]["nccl_traffic_class"] == 4
    assert Arguments(fleet, ()).of("n1")["roce_qos"]["nccl_traffic_class"] == 106


@pytest.mark.parametrize(
    ("value", "why"), cases(__file__, "what_only_ansible_knows_proves_nothing")
)
def test_what_only_ansible_knows_proves_nothing(tmp_path, value, why):
    more = {
        "host_vars/n1.yml": f'---\nlimits_sysctl: "{value}"\n',
        "group_vars/nodes.yml": "---\nother: \"{{ query('pipe', 'hostname') }}\"\n",
    }
    arguments = Arguments(load_site(sites.write(tmp_path, {**sites.GOOD, **more})), ["limits"])
    with pytest.raises(NotCertain) as refused:
        arguments.of("n1")
    assert why in str(refused.value)
    assert arguments.of("n2")["limits"]["sysctl"] == {}


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ('limits_sysctl: "{{ ansible_local }}"', "limits: only Ansible knows ansible_local"),
        ("ansible_host: 127.0.0.1\nansible_port: 1", "ssh: connection refused"),
    ],
)
def test_same_reason_of_many_nodes_has_the_same_words(tmp_path, variables, why):
    more = {"group_vars/nodes.yml": f"---\n{variables}\n"}
    found = probe_fleet(load_site(sites.write(tmp_path, {**sites.GOOD, **more})), ["limits"])
    (said,) = {one.why for one in found.values()}
    assert len(found) == 2
    assert said.startswith(why)


def test_address_of_a_node_is_its_to_say(tmp_path):
    text = '---\nansible_host: 10.0.0.1\nnccl_socket_ifname: "{{ ansible_host }}"\n'
    more = {"host_vars/n1.yml": text}
    arguments = Arguments(load_site(sites.write(tmp_path, {**sites.GOOD, **more})), ["nccl"])
    assert arguments.of("n1")["nccl"]["socket_ifname"] == "10.0.0.1"


def test_archive_is_the_same_each_time_and_needs_no_ansible(tmp_path):
    first = collection.archive()
    collection.archive.cache_clear()
    assert collection.archive() == first
    with zipfile.ZipFile(BytesIO(first)) as opened:
        names = [name[: -len(".py")].replace("/", ".") for name in opened.namelist()]
    path = tmp_path / "survey.zip"
    path.write_bytes(first)
    imports = "\n".join(f"import {name.removesuffix('.__init__')}" for name in names)
    code = f"import sys; sys.path.insert(0, {str(path)!r})\n{imports}\n"
    code += "assert not [name for name in sys.modules if name.startswith('ansible')]"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
    assert len(names) > 60


def subscripts(source: str) -> list[str]:
    """Return the types that Python 3.8 cannot subscript and would: not those of annotations."""
    at_run_time: list[ast.AST] = [ast.parse(source, feature_version=(3, 8))]
    found = []
    for node in at_run_time:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        for name, part in ast.iter_fields(node):
            parts = part if isinstance(part, list) else [part]
            if name not in ("annotation", "returns"):
                at_run_time += [each for each in parts if isinstance(each, ast.AST)]
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            found += [node.value.id] if node.value.id in NOT_BEFORE_3_9 else []
    return found


def test_modules_on_nodes_need_no_python_newer_than_3_8():
    assert subscripts("def f(a: dict[str, int]) -> None:\n    dict[str, int]()") == ["dict"]
    modules = (data_dir("plugins") / "module_utils").rglob("*.py")
    assert {path.name: found for path in modules if (found := subscripts(path.read_text()))} == {}


def test_programs_that_roles_ship_are_the_same_from_the_archive(tmp_path):
    """Or a node that Ansible made right would differ for the probe, each time."""
    path = tmp_path / "survey.zip"
    path.write_bytes(collection.archive())
    code = f"""
import json, sys
sys.path.insert(0, {str(path)!r})
from {collection.PACKAGE} import shipped
from {collection.PACKAGE}.qos import install
print(json.dumps(shipped.sources(install.OWNER, install.MODULES)))
"""
    done = execute([sys.executable, "-I", "-S", "-c", code], check=True)
    wanted = shipped.sources(install.OWNER, install.MODULES)
    assert len(wanted) > len(install.MODULES)
    assert json.loads(done.stdout) == wanted


def test_survey_runs_from_its_input():
    """As on a node: no file, no Ansible."""
    asked = survey_command(
        Target("n1", "", ("/bin/sh", "-c"), sys.executable, 10, sys.executable),
        request(
            {
                "limits": {
                    "memlock": "unlimited",
                    "memlock_users": [],
                    "memlock_services": [],
                    "sysctl": {"kernel.ostype": "Linux"},
                }
            }
        ),
    )
    done = subprocess.run(
        ["/bin/sh", "-c", asked.text],
        input=asked.shared + asked.given,
        capture_output=True,
        check=False,
    )
    found = judge_answer(
        Answer(done.returncode, done.stdout.decode(), done.stderr.decode()), ["limits"]
    )
    assert found.survey is not None, found.why
    assert found.survey.problems == ()
    assert [change.seen for change in found.survey.roles["limits"].changes] == ["absent"]
