"""`rdmaprov explain switch`: what it prints, its JSON and its exit codes."""

import json
import re
import shutil
from functools import partial

import pytest
from tests.program import ended_here
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.switch_answers import FIXTURES, NAMES, SavedAnswers

from rdmaprov.cli.explain_switch import SYSTEMS
from rdmaprov.exit_codes import ExitCode
from rdmaprov.switches.read import READERS


@pytest.fixture
def explain(capsys):
    return partial(ended_here, capsys, "explain", "switch")


@pytest.fixture
def site(tmp_path):
    return write(tmp_path / "site", GOOD)


def test_right_switch_ends_with_0(explain):
    code, said, _ = explain(FIXTURES / "sonic-z9664f")
    assert code == ExitCode.OK
    assert said.splitlines()[-2:] == [
        "right: sonic-z9664f (SONiC): 2 ports, those that are not down; not read: buffers, drops",
        "judged by the usual defaults: PFC on 3, DSCP 26 and 48, MTU from 4,192 on;"
        " judge by a site: --site SITE",
    ]


def test_site_decides_instead(explain, site):
    code, said, _ = explain(FIXTURES / "sonic-z9664f", "--site", site)
    assert code == ExitCode.FAILED
    assert said.splitlines()[:2] == [
        "wrong: sonic-z9664f Ethernet0, Ethernet8: PFC is on for priorities 3 and 4, expected"
        " priority 3 (roce_qos_pfc_priorities; read: CONFIG_DB PORT_QOS_MAP)",
        "  fix, on the switch: sudo config interface pfc priority Ethernet0 4 off;"
        " so each of these ports",
    ]
    assert said.splitlines()[-1].startswith("wrong: sonic-z9664f (SONiC): 2 ports, those of 400 ")


def test_json_has_every_fact(explain):
    code, said, _ = explain(FIXTURES / "sonic-z9664f", "--json")
    document = json.loads(said)
    assert (code, document["exit_code"]) == (0, 0)
    (switch,) = document["switches"]
    assert (switch["verdict"], switch["system"]) == ("right", "SONiC")
    port = switch["ports"]["Ethernet0"]
    assert (port["pfc_tx"], port["mtu_bytes"], port["dscp_class"]["26"]) == ([3, 4], 9216, 3)
    range_ = {"least": 2048000, "most": 12480000, "unit": "bytes", "percent": 15}
    assert port["ecn"]["3"] == {"is_on": True, **range_}
    assert port["lossless_groups"] is None
    assert switch["read_from"]["mtu"] == "CONFIG_DB PORT"


def test_several_switches_end_with_the_worst(explain, tmp_path):
    code, said, _ = explain(FIXTURES)
    assert code == ExitCode.FAILED
    assert "\n9 switches: 3 right, 3 wrong, 3 unknown\n" in said
    for name in ("sonic-z9664f", "arista-7388"):
        shutil.copytree(FIXTURES / name, tmp_path / "two" / name)
    assert explain(tmp_path / "two")[0] == ExitCode.UNKNOWN
    assert explain(*(FIXTURES / name for name in NAMES))[1] == said


def test_one_file_is_a_switch(explain, tmp_path):
    file = tmp_path / "leaf01.json"
    shutil.copy(FIXTURES / "sonic-z9664f/config_db.json", file)
    assert "\nright: leaf01 (SONiC): 2 ports" in explain(file)[1]


def test_unknown_answers_are_named(explain, tmp_path):
    saved = SavedAnswers(tmp_path, "sonic-z9664f")
    saved.write("uname.txt", "Linux leaf01\n").write("cut.json", '{"PORT": {"Eth')
    saved.write("running-config.txt", "priority-flow-control on\nend\n").write("empty.txt", "\n")
    code, said, _ = explain(saved.path)
    assert code == ExitCode.UNKNOWN
    assert [line for line in said.splitlines() if "not read: " in line][:5] == [
        "unknown: sonic-z9664f: not read: cut.json: cut, or no JSON",
        "unknown: sonic-z9664f: not read: empty.txt is empty",
        "unknown: sonic-z9664f: not read: cut.json is of no known command",
        "unknown: sonic-z9664f: not read: running-config.txt is of Arista EOS, others are of SONiC",
        "unknown: sonic-z9664f: not read: uname.txt is of no known command",
    ]


def test_unknown_facts_name_the_command_that_tells_them(explain):
    code, said, _ = explain(FIXTURES / "cumulus-roce")
    assert code == ExitCode.UNKNOWN
    assert (
        "unknown: cumulus-roce swp16: not verified: the MTU;"
        " save what this prints: nv show interface -o json\n" in said
    )


def test_invalid_site_ends_with_3(explain, site):
    (site / "group_vars/all.yml").write_text("fabric_kind: carrier_pigeon\n")
    assert explain(FIXTURES / "sonic-z9664f", "--site", site)[0] == ExitCode.INVALID_SITE


def test_limit_takes_nodes_that_are_alike(explain, site):
    text = "nodes:\n  hosts:\n    n1: {unit: 1}\n    n2: {unit: 2, fabric_mtu_bytes: 4200}\n"
    (site / "hosts.yml").write_text(text)
    words = (FIXTURES / "sonic-z9664f", "--site", site, "--json")
    assert json.loads(explain(*words)[1])["wanted"]["mtu_bytes"] == 9000
    assert json.loads(explain(*words, "--limit", "n2")[1])["wanted"]["mtu_bytes"] == 4200


@pytest.mark.parametrize("system", SYSTEMS)
def test_commands_of_each_system(explain, system):
    code, said, _ = explain("--commands", system)
    assert code == ExitCode.OK
    # Nothing that is asked changes a switch.
    asked = "nv show|nv config show|show|sonic-cfggen -d"
    assert re.fullmatch(rf"(?:(?:{asked}) [^\n]+  # .+\n)+", said)


def test_every_reader_has_its_keyword():
    assert {reader.system.keyword for reader in READERS} == set(SYSTEMS)
