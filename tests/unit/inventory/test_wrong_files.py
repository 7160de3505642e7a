"""Wrong sites that are more than text in YAML, and sites through the console script."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.tables import cases
from tests.unit.helpers import sites

from rdmaprov import cli, contract
from rdmaprov.cli import run
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import SiteError, load_site
from rdmaprov.surroundings import ansible_command

BILLION_LAUGHS = cases(__file__, "billion_laughs")
VAULTED_FILE = cases(__file__, "vaulted_file")
VAULTED_VALUE = cases(__file__, "vaulted_value")


def lines(site: Path) -> list[str]:
    return [problem.text(site) for problem in contract.problems(load_site(site))]


def site_with(tmp_path: Path, name: str, content: bytes) -> Path:
    site = sites.write(tmp_path / "site", sites.GOOD)
    path = site / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return site


NEW = "    n3:\n"  # as one appends a node
GROUPS = "---\nnodes:\n  children:\n    r1: {hosts: {n1: , n2: }, vars: {unit: 7}}\n  hosts:\n"


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"hosts.yml": sites.GOOD["hosts.yml"] + NEW}, "hosts.yml:6:5: fabric_rails: n3 has no"
         " unit, which group_vars/all.yml:5 needs; write n3: {unit: 3}, as n1, n2 have"),
        ({"hosts.yml": sites.GOOD["hosts.yml"].replace("unit: 2", "unit: b") + NEW},
         "hosts.yml:6:5: fabric_rails: n3 has no unit, which group_vars/all.yml:5 needs; write n3:"
         " {unit: UNIT}, as n1, n2"),
        ({"hosts.yml": "nodes: {}\n", "hosts": "[nodes]\nn1 unit=1\nn2 unit=2\nn3\n"},
         "hosts:4:1: fabric_rails: n3 has no unit, which group_vars/all.yml:5 needs; write n3"
         " unit=3, as n1, n2"),
        ({"hosts.yml": GROUPS + NEW}, "hosts.yml:6:5: fabric_rails: n3 has no unit, which"
         " group_vars/all.yml:5 needs; write unit for it, or put it into a group that has it, as"
         " r1 [n3]"),
    ],
)  # fmt: skip
def test_node_that_lacks_what_others_set_is_told_so_where_it_stands(tmp_path, files, line):
    found = [text for text in lines(sites.write(tmp_path, {**sites.GOOD, **files})) if "n3" in text]
    assert [text[: len(line)] for text in found if "fabric_rails" in text] == [line], found


@pytest.mark.parametrize("is_there", [True, False])
def test_hint_names_ansible_by_its_path_where_pipx_and_uv_leave_it_out(is_there, monkeypatch):
    own = Path(sys.executable).with_name("ansible-inventory")
    monkeypatch.setenv("PATH", str(own.parent) if is_there else "/usr/bin:/bin")
    words = ansible_command("ansible-inventory", "-i", "a site", "--list")
    assert shlex.split(words)[1:] == ["-i", "a site", "--list"]
    assert shlex.split(words)[0] == ("ansible-inventory" if is_there else str(own))


def test_every_hint_names_ansible_by_the_same_function():
    """A text such as `ansible -i` in a message of the program would name what is not in PATH."""
    written = re.compile(r"ansible(-\w+)? (-i|collection) ")
    source = Path(cli.__file__).parents[1]
    assert [path.name for path in source.rglob("*.py") if written.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("group_vars/nodes.yml", b"a: 1\nb: \xff\xfe\n", "group_vars/nodes.yml:2:4: nodes.yml: b"),
        ("group_vars/nodes.yml", "a: é\n".encode("latin-1"), "group_vars/nodes.yml:1:4: nodes.yml"),
        ("group_vars/nodes.yml", "a: 1\n".encode("utf-16"), "group_vars/nodes.yml:1:1: nodes.yml"),
        ("group_vars/nodes.yml", b"a: 1\n\x7fELF\0\0", "group_vars/nodes.yml:2:1: nodes.yml: the"),
        ("hosts.yml", bytes(range(256)) * 100, "hosts.yml:1:1: hosts.yml: the file is binary"),
        ("group_vars/nodes.yml", b"a: b\n" * 2_000_000, "group_vars/nodes.yml:1:1: nodes.yml: the"),
        ("group_vars/nodes.yml", b"[" * 50_000, "group_vars/nodes.yml:"),
        ("group_vars/nodes.yml", b"nccl_environment: &a {A: *a}\n", "group_vars/nodes.yml:1:"),
        ("group_vars/nodes.yml", BILLION_LAUGHS.encode(), "group_vars/nodes.yml:5:"),
        ("group_vars/nodes.yml", VAULTED_FILE.encode(), "group_vars/nodes.yml:1:1: nodes.yml: the"),
        ("group_vars/nodes.yml", VAULTED_VALUE.encode(), "group_vars/nodes.yml:1:19: fabric_mtu"),
    ],
    ids=[
        *("utf8", "latin1", "utf16", "elf", "binary", "10MB", "deep", "loop", "laughs", "vault"),
        "inline-vault",
    ],
)
def test_wrong_file_is_named(tmp_path: Path, name: str, content: bytes, line: str):
    found = lines(site_with(tmp_path, name, content))
    assert any(text.startswith(line) for text in found), found


def test_vault_says_how_to_give_a_password(tmp_path: Path):
    site = site_with(tmp_path, "group_vars/nodes.yml", VAULTED_VALUE.encode())
    assert "ANSIBLE_VAULT_PASSWORD_FILE" in " ".join(lines(site))


@pytest.mark.program
def test_vaulted_file_is_read_with_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    site = site_with(tmp_path, "group_vars/nodes.yml", b"---\nfabric_mtu_bytes: 1500\n")
    password = tmp_path / "password"
    password.write_text("correct horse\n")
    vault = Path(sys.executable).with_name("ansible-vault")
    encrypt: list[str | Path] = [
        vault,
        "encrypt",
        "--vault-password-file",
        password,
        site / "group_vars/nodes.yml",
    ]
    subprocess.run(encrypt, check=True, capture_output=True)
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(password))
    program: list[str | Path] = [sys.executable, "-m", "rdmaprov", "check", site]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.INVALID_SITE
    assert "group_vars/nodes.yml:2:19: fabric_mtu_bytes: ******** is too small" in done.stdout


def test_python_object_is_never_executed(tmp_path: Path):
    mark = tmp_path / "executed"
    text = f"a: !!python/object/apply:os.system ['touch {mark}']\n"
    assert lines(site_with(tmp_path, "group_vars/nodes.yml", text.encode()))
    assert not mark.exists()


def test_empty_variable_file_is_good(tmp_path: Path):
    assert lines(site_with(tmp_path, "group_vars/nodes.yml", b"")) == []


@pytest.mark.parametrize("name", ["nowhere", "site/hosts.yml"])
def test_no_directory_is_refused(tmp_path: Path, name: str):
    sites.write(tmp_path / "site", sites.GOOD)
    with pytest.raises(SiteError) as error:
        load_site(tmp_path / name)
    assert error.value.exit_code == ExitCode.INVALID_SITE


def test_empty_directory_has_no_hosts(tmp_path: Path):
    assert "the site has no hosts" in " ".join(lines(tmp_path))


def test_ipv6_host_names_and_rails_are_good(tmp_path: Path):
    hosts = """\
nodes:
  hosts:
    "fd00:1::1": {fabric_rails: [{netdev: ens1, address: "fd00:2::1/64"}]}
    "fd00:1::2": {fabric_rails: [{netdev: ens1, address: "fd00:2::2/64"}]}
"""
    site = sites.write(tmp_path / "site", {**sites.GOOD, "hosts.yml": hosts})
    assert lines(site) == []
    assert load_site(site).nodes[0].get("nccl_ib_address_family") == "ipv6"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["check", "good"], ExitCode.OK),
        (["check", "wrong"], ExitCode.INVALID_SITE),
        (["check", "nowhere"], ExitCode.INVALID_SITE),
        (["check", "good", "--limit", "nobody"], ExitCode.USAGE),
        (["check", "good", "-l", "n1"], ExitCode.OK),
        (["check"], ExitCode.USAGE),
        (["check", "good", "--format", "html"], ExitCode.USAGE),
    ],
)
def test_exit_codes(tmp_path, monkeypatch, arguments, code):
    sites.write(tmp_path / "good", sites.GOOD)
    sites.write(tmp_path / "wrong", {**sites.GOOD, "group_vars/nodes.yml": "fabric_mtu: 1"})
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == code


def wrong_site(tmp_path: Path) -> Path:
    files = {**sites.GOOD, "group_vars/nodes.yml": "---\nfabric_mtu_bytes: 1500\n"}
    return sites.write(tmp_path / "site", files)


def test_json_names_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["check", str(wrong_site(tmp_path)), "--json", "-"]) == ExitCode.INVALID_SITE
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["line"] == 2
    assert problem["column"] == 19
    assert problem["variable"] == "fabric_mtu_bytes"
    assert problem["rule"] == "mtu.netdev"
    assert problem["hosts"] == ["n1", "n2"]


def test_github_annotation(tmp_path, monkeypatch, capsys):
    wrong_site(tmp_path)
    monkeypatch.chdir(tmp_path)
    run(["check", "site", "--format", "github"])
    assert capsys.readouterr().out.startswith(
        "::error file=site/group_vars/nodes.yml,line=2,col=19,title=fabric_mtu_bytes (mtu.netdev)::"
    )


def test_limit_looks_at_some_nodes_only(tmp_path: Path):
    files = {**sites.GOOD, "host_vars/n2.yml": "fabric_mtu_bytes: 1500\n"}
    site = sites.write(tmp_path / "site", files)
    assert [node.name for node in load_site(site, "n1").nodes] == ["n1"]
    assert contract.problems(load_site(site, "n1")) == []
    assert contract.problems(load_site(site, "nodes:!n1")) != []


@pytest.mark.parametrize(("limit", "named"), cases(__file__, "named").items())
def test_part_of_a_limit_that_matches_nothing_is_named(tmp_path, monkeypatch, limit, named):
    monkeypatch.chdir(tmp_path)
    bare = {"hosts.yml": sites.GOOD["hosts.yml"] + "bare:\n"}
    sites.write(tmp_path / "site", {**sites.GOOD, **bare})
    sites.write(tmp_path, {"names": "n1\n\ngpu99\n", "empty": "\n"})
    (tmp_path / "noise").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError) as raised:
        load_site(Path("site"), limit)
    said = raised.value.message
    assert said.endswith(f"no host matches {named}") or (" " in named and named in said)


def test_pattern_is_ansibles_and_a_name_beside_a_wrong_one_is_offered(tmp_path: Path):
    site = sites.write(tmp_path / "site", sites.GOOD)
    (tmp_path / "names").write_text("n2\n")
    selected = {
        "all": "n1 n2",
        "nodes[0]": "n1",
        "nodes[0:1]": "n1 n2",
        "nodes:&n2": "n2",
        "!n1": "n2",
        "~n[12]": "n1 n2",
        "n[!1]": "n2",
        "*": "n1 n2",
        f"@{tmp_path}/names": "n2",
        "n2, n1": "n1 n2",
    }
    for limit, names in selected.items():
        assert sorted(node.name for node in load_site(site, limit).nodes) == names.split(), limit
    with pytest.raises(UsageError) as raised:
        load_site(site, "n1,node")
    assert raised.value.hint.startswith("Did you mean nodes? ")


def test_every_verb_with_a_limit_has_its_short_form():
    for verb in cli.VERBS:
        command = cli.cli.get_command(click.Context(cli.cli), verb)
        assert command
        own = [p.opts for p in command.params if "--limit" in p.opts]
        assert own in ([], [["-l", "--limit"]]), verb


@pytest.mark.program
@pytest.mark.parametrize("wrong", [False, True])
def test_console_script_shows_no_traceback(tmp_path: Path, wrong: bool):
    site = wrong_site(tmp_path) if wrong else sites.write(tmp_path / "site", sites.GOOD)
    program = Path(sys.executable).with_name("rdmaprov")
    done = subprocess.run([program, "check", site], capture_output=True, text=True, check=False)
    assert done.returncode == (3 if wrong else 0)
    assert done.stderr == ("" if wrong else f"{site}: 2 nodes, 0 problems\n")
    assert bool(done.stdout) is wrong
