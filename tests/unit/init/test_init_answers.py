"""What init asks for, and what it says of answers that are missing or wrong."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from tests.tables import cases
from tests.unit.helpers.init_flags import IB, ROCE

from rdmaprov.cli import run
from rdmaprov.cli.init import init
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import load_site


def terminal(monkeypatch: pytest.MonkeyPatch, is_one: bool) -> None:
    stdin = SimpleNamespace(isatty=lambda: is_one)
    monkeypatch.setattr("rdmaprov.cli.init.sys", SimpleNamespace(stdin=stdin))


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[str, str]:
    """Return what is wrong with a command line of init, and the command to run instead."""
    assert run(["init", *map(str, words)]) == ExitCode.USAGE
    said = capsys.readouterr().err
    message, hint = said[said.index("error: ") :].splitlines()
    return message.removeprefix("error: "), hint.removeprefix("hint:  Run: ")


@pytest.mark.parametrize(
    ("answers", "keys"),
    [
        ("infiniband\nib[1:2]\nmlx\n400\n0\n0x8001\n", ["0x8001"]),
        ("RoCE\ngpu[1:2]\nens1\n100\n0\n", []),
    ],
)
def test_missing_flags_are_asked_for_and_partition_keys_on_infiniband(tmp_path, answers, keys):
    done = CliRunner().invoke(init, [str(tmp_path / "new")], input=answers)
    assert done.exit_code == 0, done.output
    nodes = load_site(tmp_path / "new").nodes
    assert [node.get("fabric_partition_keys") for node in nodes] == [keys, keys]


def test_wrong_answer_is_asked_for_again_and_no_other_is_lost(tmp_path, monkeypatch):
    answers = "roce\ngpu[01..02]\ngpu[1:2]\nmlx5_0\nens1\n300\n100\nmany\n0\n"
    terminal(monkeypatch, True)
    done = CliRunner().invoke(init, [str(tmp_path / "new")], input=f"{answers}\n")
    assert done.exit_code == 0, done.output
    for wrong in ("'gpu[01..02]' is", "'mlx5_0' is", "no rail has 300 Gb/s", "'many' is"):
        assert f"Error: {wrong}" in done.output
    assert len(load_site(tmp_path / "new").nodes) == 2


def test_pipe_is_told_all_wrong_answers_at_once_and_keeps_the_right_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.stdin", io.StringIO("roce\ngpu[01..02]\nens1,ens2\n300\nmany\n"))
    site = tmp_path / "new"
    message, hint = refused(capsys, site, "--user", "ops")
    assert message == (
        "--nodes: 'gpu[01..02]' is neither a host name nor a range such as gpu[01:16]; --gbps: no "
        "rail has 300 Gb/s; use one of 10, 25, 40, 50, 56, 100, 200, 400, 800; --gpus: 'many' is "
        "not a valid integer range"
    )
    assert hint == (
        f"rdmaprov init {site} --kind roce --nodes NODES --rails ens1,ens2 --gbps GBPS"
        " --gpus GPUS --subnet none --user ops"
    )
    assert not site.exists()
    right = {"NODES": "gpu[01:02]", "GBPS": "100", "GPUS": "2"}
    assert run([right.get(word, word) for word in hint.split()[1:]]) == ExitCode.OK


def test_wrong_options_are_told_together_and_nothing_is_asked(tmp_path, monkeypatch, capsys):
    terminal(monkeypatch, True)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    wrong = ["--gbps", "300", "--rails", "ens1", "--user=-l", "--kind", "ethernet"]
    message, hint = refused(capsys, tmp_path / "new", *wrong)
    assert [part.partition(":")[0] for part in message.split("; --")] == ["--kind", "gbps", "user"]
    assert hint == f"rdmaprov init {tmp_path}/new --kind KIND --rails ens1 --gbps GBPS --user USER"


@pytest.mark.parametrize("is_one", [True, False], ids=["terminal", "pipe"])
def test_directory_with_files_is_refused_before_anything_is_asked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_one: bool,
):
    (tmp_path / "mine").touch()
    terminal(monkeypatch, is_one)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    message, hint = refused(capsys, tmp_path, *ROCE)
    assert f"{tmp_path} exists and is not empty" in message
    assert hint.startswith("rdmaprov init DIRECTORY --kind roce --nodes 'gpu[01:04],spare1' ")
    assert ("--gpus: no answer" in message) is not is_one


@pytest.mark.parametrize("is_one", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize(
    ("last", "address"),
    [("10.4.0.0/16\n", "10.4.0.1/24"), ("\n", "None"), ("None\n", "None")],
    ids=["network", "default", "none"],
)
def test_pipe_and_terminal_ask_the_same(tmp_path, monkeypatch, is_one, last, address):
    terminal(monkeypatch, is_one)
    answers = f"roce\nn1,n2\nens1\n100\n0\n{last}"
    done = CliRunner().invoke(init, [str(tmp_path / "new")], input=answers)
    assert done.exit_code == 0, done.output
    # six questions, what is understood and assumed, and what is next
    assert done.output.count(": ") == 9
    assert str(load_site(tmp_path / "new").nodes[0].rails[0].address) == address


@pytest.mark.parametrize("is_one", [True, False])
@pytest.mark.parametrize("given", [[], ["--subnet", "none"]], ids=["default", "none"])
def test_rails_have_no_addresses_unless_a_network_is_named(tmp_path, monkeypatch, is_one, given):
    terminal(monkeypatch, is_one)
    words = [str(tmp_path / "new"), *ROCE, "--gpus", "0", *given]
    done = CliRunner().invoke(init, words, input="\n")
    assert done.exit_code == 0, done.output
    assert ("or none [none]:" in done.output) is (is_one and not given)
    assert {rail.address for rail in load_site(tmp_path / "new").nodes[0].rails} == {None}


def test_no_answer_is_a_usage_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("roce\n"))
    assert run(["init", str(tmp_path / "new")]) == ExitCode.USAGE
    assert "--gbps: no answer; --gpus: no answer" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("rate", ["400G", "400 Gb/s", "400GbE", "NDR", "2x400", "2×400G"])
def test_what_people_write_is_taken_and_init_says_for_what(tmp_path, capsys, rate):
    site = tmp_path / "my site"
    names = ["--nodes", "gpu[01-16].dc1.example,spare.dc1.example"]
    words = [*ROCE, *names, "--rails", "ens1,ens2", "--gbps", rate, "--gpus", "8"]
    assert run(["init", str(site), *words]) == ExitCode.OK
    first, assumed, *_, then = capsys.readouterr().out.splitlines()
    assert assumed.startswith("assumed: fabric_mtu_bytes 9000, fabric_roce_dscp 26, ")
    assert first == (
        "understood: 17 nodes (gpu01.dc1.example to spare.dc1.example), each with 2 rails (ens1 to"
        " ens2) of 400 Gb/s and 8 GPUs"
    )
    assert then == f"next: rdmaprov check '{site}'"
    node = load_site(site).nodes[0]
    assert (node.name, node.get("fabric_link_gbps")) == ("gpu01.dc1.example", 400)


@pytest.mark.parametrize(
    ("words", "assumed", "settings"),
    cases(__file__, "given_settings_are_written_and_no_longer_assumed"),
)
def test_given_settings_are_written_and_no_longer_assumed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    assumed: str,
    settings: dict[str, int],
):
    assert run(["init", str(tmp_path / "new"), *ROCE, "--gpus", "0", *words]) == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[1].startswith(assumed)
    node = load_site(tmp_path / "new").nodes[0]
    assert {name: node.get(name) for name in settings} == settings


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([*ROCE, "--dscp", "64"], "--dscp: 64 is outside 0 to 63"),
        ([*ROCE, "--mtu", "1500"], "--mtu: 1500 is too small for a RoCE MTU"),
        ([*IB, "--gbps", "200", "--dscp", "26"], "--dscp is an option for RoCE"),
    ],
)
def test_wrong_setting_of_the_fabric_is_refused(tmp_path, capsys, words, why):
    assert run(["init", str(tmp_path / "new"), *words, "--gpus", "0"]) == ExitCode.USAGE
    assert why in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("written", "count", "last"), cases(__file__, "two_names_that_differ_in_a_number_are_a_range")
)
def test_two_names_that_differ_in_a_number_are_a_range(tmp_path, written, count, last):
    words = [str(tmp_path / "new"), *ROCE, "--gpus", "0", "--nodes", written]
    assert run(["init", *words]) == ExitCode.OK
    nodes = load_site(tmp_path / "new").nodes
    assert (len(nodes), nodes[-1].name) == (count, last)


@pytest.mark.parametrize(
    "rails", ["ens[1:4]np0", "ens[1-4]np0", "ens1np0-ens4np0", "ens1-4np0", "ens1np0 to ens4np0"]
)
def test_rails_are_named_by_a_range(tmp_path: Path, rails: str):
    words = [str(tmp_path / "new"), *ROCE, "--gpus", "0", "--rails", rails, "--gbps", "4x400"]
    assert run(["init", *words]) == ExitCode.OK
    found = [rail.netdev for rail in load_site(tmp_path / "new").nodes[0].rails]
    assert found == ["ens1np0", "ens2np0", "ens3np0", "ens4np0"]


def test_rate_of_other_rails_is_named_in_either_order(tmp_path, capsys):
    rate, others = ["--gbps", "8x400"], ROCE[:-2]
    for words in ([*others, *rate], [*rate, *others]):
        message, _ = refused(capsys, tmp_path / "new", *words, "--gpus", "0")
        assert message == "--gbps: '8x400' has 8 rails, and --rails names 2"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([*IB, "--gbps", "400", "--partition-keys", "0x8000"], "partition-keys: '0x8000' is not a"),
        ([*ROCE, "--rails", "ens[1..4]np0"], "rails: 'ens[1..4]np0' is no network device, PCI"),
        ([*ROCE, "--gbps", "8x400"], "gbps: '8x400' has 8 rails, and --rails names 2"),
        ([*ROCE, "--nodes", "gpu01 to spare"], "nodes: 'gpu01..spare' is no range; write one"),
        ([*ROCE, "--nodes", "rack1-1,rack1-2"], "nodes: 'rack1-2' may be a range or a name, as r"),
        ([*ROCE, "--rails", "ens1 to"], "rails: 'to' is no range; write one such as"),
        ([*ROCE, "--gbps", "fast"], "gbps: 'fast' is no line rate, such as 400, 400G or NDR"),
    ],
)
def test_wrong_text_is_refused_and_asked_for(tmp_path, capsys, words, why):
    message, hint = refused(capsys, tmp_path / "new", *words, "--gpus", "0")
    assert message.startswith(f"--{why}")
    flag = why.partition(":")[0]
    assert f"--{flag} {flag.upper().replace('-', '_')}" in hint


def test_rails_that_do_not_share_the_gpus_evenly_are_warned_of(tmp_path, capsys):
    words = [str(tmp_path / "new"), *ROCE, "--rails", "ens1-7", "--gpus"]
    assert run(["init", *words, "8"]) == ExitCode.OK
    assert "warning: 7 rails do not share 8 GPUs evenly" in capsys.readouterr().err
    assert run(["check", str(tmp_path / "new")]) == ExitCode.OK
    assert "8 GPUs do not share 7 rails evenly" in capsys.readouterr().err
