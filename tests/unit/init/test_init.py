"""A new site is a good one."""

from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers.init_flags import IB, ROCE
from tests.unit.helpers.shell import execute

from rdmaprov.cli import run
from rdmaprov.cli.init import REFERENCES
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import load_site


@pytest.mark.parametrize(
    ("flags", "nodes", "gpus"),
    [
        ([*ROCE, "--gpus", "8", "--subnet", "10.4.0.0/16"], 5, ((0, 1, 2, 3), (4, 5, 6, 7))),
        ([*ROCE, "--gpus", "0"], 5, ((), ())),
        ([*ROCE, "--gpus", "1", "--user", "ops"], 5, ((0,), (0,))),
        ([*IB, "--gbps", "400", "--gpus", "2"], 1, ((0,), (1,))),
    ],
    ids=["addresses", "no-gpus", "one-gpu", "infiniband"],
)
def test_written_site_passes_check(tmp_path, flags, nodes, gpus):
    site = tmp_path / "new"
    assert run(["init", str(site), *flags]) == ExitCode.OK
    assert run(["check", str(site)]) == ExitCode.OK
    fleet = load_site(site)
    assert len(fleet.nodes) == nodes
    assert tuple(rail.gpus for rail in fleet.nodes[0].rails) == gpus


@pytest.mark.parametrize("program", ["/usr/sbin/nhc", ""])
def test_launcher_is_slurm_where_its_health_check_would_end_ranks(tmp_path, monkeypatch, program):
    name = "rdmaprov.scheduler.slurm.health_check_program"
    monkeypatch.setattr(name, lambda nodes: program if len(nodes) == 5 else "/no")
    site = tmp_path / "new"
    assert run(["init", str(site), *ROCE, "--gpus", "0"]) == ExitCode.OK
    node = load_site(site).nodes[0]
    expected = ("slurm", "slurm") if program else ("ssh", "none")
    assert (node.get("torch_runtime_launcher"), node.get("scheduler_kind")) == expected


def test_partition_keys_are_written_for_nccl_too(tmp_path: Path):
    site = tmp_path / "new"
    flags = [*IB, "--gbps", "400", "--gpus", "2", "--partition-keys", "0x8001,0xffff"]
    assert run(["init", str(site), *flags]) == ExitCode.OK
    node = load_site(site).nodes[0]
    assert node.get("fabric_partition_keys") == ["0x8001", "0xffff"]
    assert node.get("nccl_ib_pkey") == "0x8001"


def test_rdma_devices_name_rails_on_infiniband(tmp_path: Path):
    site = tmp_path / "new"
    flags = ["--kind", "infiniband", "--nodes", "ib1", "--rails", "mlx5_0,mlx5_1"]
    run(["init", str(site), *flags, "--gbps", "400", "--gpus", "0", "--partition-keys", "none"])
    first, second = load_site(site).nodes[0].rails
    assert (first.rdma, first.netdev, second.rdma, second.netdev) == ("mlx5_0", "", "mlx5_1", "")


def test_addresses_follow_the_subnet(tmp_path: Path):
    site = tmp_path / "new"
    run(["init", str(site), *ROCE, "--gpus", "0", "--subnet", "10.4.0.0/16"])
    last = load_site(site).nodes[-1]
    assert [str(rail.address) for rail in last.rails] == ["10.4.0.5/24", "10.4.1.5/24"]


@pytest.mark.parametrize(("user", "sudo"), [("root", False), ("ops", True)])
def test_sudo_is_for_users_other_than_root(tmp_path: Path, user: str, sudo: bool):
    run(["init", str(tmp_path / "new"), *ROCE, "--gpus", "0", "--user", user])
    text = (tmp_path / "new/group_vars/all.yml").read_text()
    assert f"ansible_user: {user}\n" in text
    assert ("ansible_become: true\n" in text) is sudo


def test_hosts_have_numbers_where_addresses_use_them(tmp_path: Path):
    for name, more in (("with", ["--subnet", "10.4.0.0/16"]), ("without", [])):
        run(["init", str(tmp_path / name), *ROCE, "--gpus", "0", *more])
    assert "    gpu02: {node_number: 2}\n" in (tmp_path / "with/hosts.yml").read_text()
    assert "number" not in (tmp_path / "without/hosts.yml").read_text()
    assert load_site(tmp_path / "without").nodes[1].name == "gpu02"


def test_host_names_that_yaml_reads_otherwise_are_in_quotes(tmp_path: Path):
    names = ["no", "10", "1e3", "0x1F", "null", "fd00::1"]
    run(["init", str(tmp_path / "new"), *ROCE, "--gpus", "0", "--nodes", ",".join(names)])
    assert [node.name for node in load_site(tmp_path / "new").nodes] == names


@pytest.mark.parametrize(
    "change",
    cases(__file__, "wrong_facts_are_refused_and_leave_nothing"),
    ids=lambda change: change[1],
)
def test_wrong_facts_are_refused_and_leave_nothing(tmp_path: Path, change: list[str]):
    site = tmp_path / "new"
    assert run(["init", str(site), *ROCE, "--gpus", "0", *change]) == ExitCode.USAGE
    assert not site.exists()


def test_nothing_is_written_over(tmp_path: Path):
    (tmp_path / "hosts.yml").write_text("mine\n")
    assert run(["init", str(tmp_path), *ROCE, "--gpus", "0"]) == ExitCode.USAGE
    assert (tmp_path / "hosts.yml").read_text() == "mine\n"
    assert list(tmp_path.iterdir()) == [tmp_path / "hosts.yml"]


SITES = Path(__file__).parents[3] / "inventory"


def test_every_shipped_site_can_be_copied():
    shipped = execute(["git", "ls-files", "--", "."], cwd=SITES, check=True)
    assert {name.partition("/")[0] for name in shipped.stdout.split()} == set(REFERENCES)


@pytest.mark.parametrize("name", REFERENCES)
def test_copy_has_the_site_s_files_and_names_what_is_next(tmp_path, name, capsys):
    site = tmp_path / "a/new"
    assert run(["init", "--from", name, str(site)]) == ExitCode.OK
    *wrote, then = capsys.readouterr().out.splitlines()
    copied = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert {line.removeprefix(f"wrote {site}/") for line in wrote} == copied
    assert all((site / each).read_bytes() == (SITES / name / each).read_bytes() for each in copied)
    assert then.startswith("next: ")
    assert str(site) in then
    if name == "lab":
        assert copied == {"group_vars/all.yml"}
    else:
        assert "hosts.yml" in copied
        assert run(["check", str(site)]) == ExitCode.OK


@pytest.mark.parametrize(("words", "says"), cases(__file__, "copy_that_cannot_be_is_refused"))
def test_copy_that_cannot_be_is_refused(tmp_path, monkeypatch, capsys, words, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there/mine").touch()
    assert run(["init", *words]) == ExitCode.USAGE
    assert says in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "there"]
