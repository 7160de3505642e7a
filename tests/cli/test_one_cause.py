"""What `check` and `validate` print of 30 nodes that have one cause in common: a few lines."""

import json

import pytest
from tests.program import call
from tests.unit.helpers import sites

from rdmaprov.exit_codes import ExitCode

NODES = [f"gpu{number:03}" for number in range(1, 31)]
MOST_LINES = 19
EVERYONE = sites.GOOD["group_vars/all.yml"]


def site_of(tmp_path, everyone=EVERYONE, connection="ansible_connection: local"):
    rows = [f"    {name}: {{unit: {number}}}\n" for number, name in enumerate(NODES, start=1)]
    hosts = f"---\nnodes:\n  vars: {{{connection}}}\n  hosts:\n{''.join(rows)}"
    files = {**sites.GOOD, "hosts.yml": hosts, "group_vars/all.yml": everyone}
    return sites.write(tmp_path / "site", files)


def rdmaprov(tmp_path, *words):
    return call(*words, cwd=tmp_path, COLUMNS="300")


@pytest.mark.parametrize(
    ("everyone", "says"),
    [
        (f"{EVERYONE}fabric_lossless_priority: 9\n", "fabric_lossless_priority: 9 is outside"),
        (f"{EVERYONE}fabric_lossless_priority: 6\n", "both have priority 6"),
        (f"{EVERYONE}fabric_lossless_priority: three\n", "fabric_lossless_priority: "),
        (EVERYONE.replace("fabric_link_gbps: 400\n", ""), "fabric_link_gbps: is missing"),
        (EVERYONE.replace(".1.{{ unit }}/24", ".1.{{ unit }}"), "has no prefix length (and 29"),
    ],
)
def test_check_of_one_cause_is_one_line(tmp_path, everyone, says):
    site_of(tmp_path, everyone)
    done = rdmaprov(tmp_path, "check", "site")
    assert done.returncode == ExitCode.INVALID_SITE
    (line,) = (done.stdout + done.stderr).splitlines()
    assert says in line
    assert "[gpu001, gpu002, gpu003 and 27 more] (" in line


def test_check_says_every_message_as_json(tmp_path):
    site_of(tmp_path, EVERYONE.replace(".1.{{ unit }}/24", ".1.{{ unit }}"))
    problems = json.loads(rdmaprov(tmp_path, "check", "site", "--json", "-").stdout)["problems"]
    assert len({problem["message"] for problem in problems}) == 30


def test_waiver_of_one_rule_is_one_line(tmp_path):
    waiver = "fabric_waivers: [{rule: qos.trust, reason: the switches trust PCP}]\n"
    site_of(tmp_path, f"{EVERYONE}roce_qos_trust: pcp\n{waiver}")
    done = rdmaprov(tmp_path, "check", "site")
    assert (done.returncode, done.stdout) == (ExitCode.OK, "")
    line, end = done.stderr.splitlines()
    assert end == "site: 30 nodes, 0 problems"
    assert line.startswith("waived (qos.trust: the switches trust PCP): roce_qos_trust: ports")


def test_validate_of_one_failure_is_a_few_lines(tmp_path):
    site_of(tmp_path)
    (tmp_path / "test_own.py").write_text(
        "import pytest\n\n\ndef test_mtu(node, rail):\n"
        "    name = f'{node.name} ens{rail.index + 1}'\n"
        "    assert 0, f'{name}: running: MTU is 1500, expected 9000'\n"
        "\n\n@pytest.mark.parametrize('what', range(40))\n"
        "def test_skipped(node, what):\n    pytest.skip(f'not this: {what}')\n"
    )
    done = rdmaprov(tmp_path, "validate", "site", "test_own.py")
    assert done.returncode == ExitCode.FAILED
    said = done.stdout + done.stderr
    assert len(said.splitlines()) <= MOST_LINES, said
    line = "30 nodes: NODE ens1: running: MTU is 1500, expected 9000 [test_mtu, 60 checks]"
    assert said.splitlines().count(line) == 1
    assert said.count("MTU is 1500") == 1


def test_validate_of_some_nodes_names_them_folded(tmp_path):
    site_of(tmp_path)
    (tmp_path / "test_own.py").write_text(
        "def test_mtu(node):\n    assert node.name < 'gpu016', f'{node.name}: MTU is 1500'\n"
    )
    done = rdmaprov(tmp_path, "validate", "site", "test_own.py")
    assert "\n15 nodes (gpu[016-030]): NODE: MTU is 1500 [test_mtu]\n" in done.stdout


def test_validate_of_unreachable_nodes_is_a_few_lines(tmp_path):
    """With the whole suite: each of its checks is unknown for the same reason."""
    site_of(tmp_path, connection="ansible_host: 127.0.0.1, ansible_port: 1")
    done = rdmaprov(tmp_path, "validate", "site")
    assert done.returncode == ExitCode.UNKNOWN
    said = done.stdout + done.stderr
    assert len(said.splitlines()) <= MOST_LINES, said
    assert len([line for line in said.splitlines() if line.startswith("30 nodes: ssh: ")]) == 1
    assert "\n30 nodes: 30 unreachable; " in said
