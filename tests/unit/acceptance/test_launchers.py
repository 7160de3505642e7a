"""Launchers: which one a run takes, what ranks run in, and a site's own command."""

import re
from pathlib import Path

import pytest
import yaml
from tests.tables import cases
from tests.unit.helpers import sites
from tests.unit.helpers.live_ranks import made_site

from rdmaprov.acceptance.launchers import LAUNCHERS
from rdmaprov.acceptance.launchers.allocation import allocation_command, gpus_of, step_command
from rdmaprov.acceptance.launchers.choice import LAUNCHER, LaunchChoice, choose, with_launcher
from rdmaprov.acceptance.launchers.opening import open_nodes, template_target
from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.contract import problems
from rdmaprov.errors import UnreachableError, UsageError
from rdmaprov.inventory import load_site
from rdmaprov.inventory.schema import load_shipped
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.probe import Probe

ROOT = Path(__file__).resolve().parents[3]
IMAGE = "nvcr.io#nvidia/pytorch:25.06-py3"


def fleet(place, **variables):
    text = yaml.safe_dump(variables)
    files = {f"host_vars/{name}.yml": text for name in ("n1", "n2")}
    return load_site(sites.write(place / "site", {**sites.GOOD, **files}))


def test_a_site_chooses_ssh_by_itself(tmp_path):
    assert choose(fleet(tmp_path).nodes, "", "") == LaunchChoice("ssh")


def test_the_command_line_overrides_the_site(tmp_path):
    nodes = fleet(tmp_path, torch_runtime_launcher="slurm").nodes
    assert choose(nodes, "", "7") == LaunchChoice("slurm", "7")
    assert choose(nodes, "ssh", "") == LaunchChoice("ssh")


@pytest.mark.parametrize(
    ("launcher", "job", "says"),
    [("", "7", "--slurm-job needs the launcher slurm, not ssh"), ("command", "", "needs torch_")],
)
def test_options_that_do_not_fit_are_refused(tmp_path, launcher, job, says):
    with pytest.raises(UsageError, match=says):
        choose(fleet(tmp_path).nodes, launcher, job)


@pytest.mark.parametrize(
    ("variables", "launcher", "python"),
    [
        ({}, "ssh", "/opt/rdmaprov/torch/bin/python"),
        ({}, "slurm", "/opt/rdmaprov/torch/bin/python"),
        ({"torch_runtime_launch_image": IMAGE}, "slurm", "python3"),
        ({"torch_runtime_launch_image": IMAGE}, "ssh", "/opt/rdmaprov/torch/bin/python"),
        ({"torch_runtime_launch_python": "/opt/x/python"}, "command", "/opt/x/python"),
    ],
)
def test_interpreter_is_that_of_the_place_where_ranks_run(tmp_path, variables, launcher, python):
    node = with_launcher(fleet(tmp_path, **variables).nodes[0], launcher)
    assert preflight.python_of(node) == python


def test_a_step_has_the_image_and_then_the_sites_options():
    words = step_command("7", "n1", IMAGE, ["--container-mounts=/a:/a"])
    assert words[-4:] == (f"--container-image={IMAGE}", "--container-mounts=/a:/a", "/bin/sh", "-c")
    assert {"--jobid=7", "--nodelist=n1", "--overlap", "--unbuffered"} <= set(words)
    assert not [word for word in step_command("7", "n1", "", ()) if "container" in word]


def test_an_allocation_asks_for_gpus_and_time_and_has_the_sites_options_last():
    words = allocation_command(["n1", "n2"], 8, 600, ["--immediate=3600"])
    assert {"--nodes=2", "--nodelist=n[1-2]", "--gres=gpu:8", "--time=15"} <= set(words)
    assert words.index("--immediate=60") < words.index("--immediate=3600") < words.index("/bin/sh")
    assert gpus_of([{"fabric_gpu_count": 8}, {"fabric_gpu_count": 8}]) == 8
    assert gpus_of([{"fabric_gpu_count": 8}, {}]) == 0


@pytest.mark.parametrize(
    "words",
    cases(__file__, "a_sites_command_gets_the_text_whole"),
    ids=["appended", "as-it-is", "quoted"],
)
def test_a_sites_command_gets_the_text_whole(words):
    probe = Probe({"n1": template_target("n1", "192.0.2.1", words)})
    text = """printf '%s|' "$NODE" "$ADDRESS" '{quoted} $(id) "x"'"""
    assert probe.run("n1", text).out == 'n1|192.0.2.1|{quoted} $(id) "x"|'
    probe.close()


def test_a_value_with_a_place_in_it_is_not_read_again():
    target = template_target("n1", "{quoted}", ["run", "{node}"])
    assert target.command("{node}") == ["run", "n1", "{node}"]


def test_nodes_by_the_sites_command(tmp_path):
    made = fleet(
        tmp_path,
        torch_runtime_launcher="command",
        torch_runtime_launch_command=["env", "NODE={node}", "/bin/sh", "-c"],
    )
    assert problems(made) == []
    with open_nodes(made, choose(made.nodes, "", "")) as nodes:
        found = nodes.run_all({node.name: Command('printf %s "$NODE"', 20) for node in made.nodes})
    assert found == {"n1": Answer(0, "n1", ""), "n2": Answer(0, "n2", "")}


def test_without_slurm_it_is_said_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    made = fleet(tmp_path, torch_runtime_launcher="slurm")
    with (
        pytest.raises(UnreachableError, match="salloc: No such file") as caught,
        open_nodes(made, choose(made.nodes, "", "")),
    ):
        pytest.fail("there is an allocation")
    assert "--launcher ssh" in caught.value.hint


def test_examples_of_the_page_are_good_sites(tmp_path):
    page = (ROOT / "docs" / "ranks.md").read_text()
    examples = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    examples = [each for each in examples if "torch_runtime_launcher" in each]
    assert len(examples) == 3
    for number, each in enumerate(examples):
        assert problems(fleet(tmp_path / str(number), **each)) == []


def test_command_line_has_the_launchers_of_the_role():
    assert tuple(load_shipped().variables[LAUNCHER].choices) == LAUNCHERS


@pytest.fixture
def site(tmp_path):
    return made_site(tmp_path)


def test_nccl_takes_the_control_device_unless_the_node_says_otherwise(tmp_path):
    site = made_site(tmp_path, 4)
    site.facts["n2"]["socket_ifname"] = "bond0"
    made = jobs.fleet_job(site, (1 << 30,), False)
    assert made.environment["n1"]["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert "NCCL_SOCKET_IFNAME" not in made.environment["n2"]


def test_nccl_takes_the_device_that_the_site_states(tmp_path):
    site = made_site(tmp_path, 4, extra="nccl_socket_ifname: =bond0\n")
    assert jobs.fleet_job(site, (1 << 30,), False).environment["n1"] == {}


def test_the_site_chooses_the_port(tmp_path):
    site = made_site(tmp_path, 4, extra="torch_runtime_acceptance_port: 29400\n")
    assert jobs.fleet_job(site, (8,), False).port == 29400
    assert jobs.session_job(site, 3).port == 29400
    free = made_site(tmp_path / "free", 4)
    assert jobs.session_job(free, 0).port != jobs.session_job(free, 1).port


def test_ranks_meet_at_the_first_node_that_is_left(site):
    job = jobs.session_job(site.without({"n1"}), 0)
    assert (job.nodes[0], job.address) == ("n2", "192.0.2.2")
    assert jobs.session_job(site, 0).address == "192.0.2.1"


def test_all_collectives_run_on_the_fleet_at_the_largest_size_only(site):
    tasks = jobs.fleet_job(site, tuple(1 << n for n in range(3, 30)), False).tasks
    others = {task.collective: task.sizes for task in tasks if task.stage == "fleet"}
    assert set(others) == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}
    assert others["all_to_all"] == (1 << 29,)
