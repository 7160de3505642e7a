"""`rdmaprov explain FILE...`: what it answers to texts of each kind, alone and together."""

import io
import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from tests.tables import cases
from tests.unit.helpers.nccl_jobs import Job

from rdmaprov import cli
from rdmaprov.exit_codes import ExitCode

FIXTURES = Path(__file__).parents[1] / "fixtures"
EXPECTED = yaml.safe_load((FIXTURES / "explain/expected.yml").read_text())
ENDINGS = yaml.safe_load((FIXTURES / "explain/endings.yml").read_text())
LOGS = yaml.safe_load((FIXTURES / "nccl/expected.yml").read_text())
# A table and RAS, which `nccl-log` does not read.
OTHERS = {"reports/ras.log", "reports/nccl-tests-table.log"}
AS_LOGS = [each for each in LOGS if "options" not in each and not OTHERS & set(each["logs"])]


def name(case):
    return " ".join(case.get("files") or case.get("logs") or [case["from"]])


@pytest.fixture
def explain(capsys):
    def run(*words):
        return cli.run(["explain", *map(str, words)]), "".join(capsys.readouterr())

    return run


@pytest.mark.parametrize("case", [*EXPECTED, *ENDINGS], ids=name)
def test_text_is_explained(case, explain, tmp_path):
    ending = tmp_path / "ending.txt"
    ending.write_text(case.get("text", ""))
    code, printed = explain(*(FIXTURES / file for file in case.get("files", [ending])))
    head = "\n".join(printed.splitlines()[:5])
    assert code == case["code"], printed
    assert [word for word in case.get("head", ()) if word not in head] == [], printed
    assert [word for word in case.get("some", ()) if word not in printed] == [], printed
    assert [word for word in case.get("not", ()) if word in printed] == [], printed


@pytest.mark.parametrize("case", AS_LOGS, ids=name)
def test_logs_of_a_job_are_judged_as_nccl_log_judges_them(case, explain, monkeypatch):
    monkeypatch.chdir(FIXTURES / "nccl")
    code, printed = explain(*case["logs"])
    assert code == case["code"], printed
    assert [word for word in case.get("head", ()) if word not in printed] == [], printed


H200 = (FIXTURES / "nvidia-smi/h200-580-idle.txt").read_text()
JOINED = (
    "    Fabric\n        State : {}\n        Status : Success\n        Health\n            {}\n"
)
WELL = JOINED.format("Completed", "Bandwidth : Full")


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("", "", {}),
        (r"\n", r"\n  > ", {}),  # as it is pasted into a mail
        ("(Brake Slowdown +): Not", r"\1:", {"gpu.throttled": True}),
        ("(DRAM Uncorrectable +): 0", r"\1: 2", {"gpu.ecc": True}),
        ("(DRAM Uncorrectable +): 0", r"\1: few", {"gpu.ecc": False}),
        ("(Recovery Action +): None", r"\1: GPU_RESET", {"gpu.ecc": True}),
        ("    Fabric\n", f"{WELL}    Fabric\n", {}),
        ("    Fabric\n", JOINED.format("In Progress", ""), {"gpu.links": False}),
        ("    Fabric\n", JOINED.format("Not Supported by it", ""), {"gpu.links": True}),
        ("    Fabric\n", WELL.replace("Full", "Degraded"), {"gpu.links": True}),
        ("    Fabric\n", WELL.replace("Full", "odd"), {"gpu.links": False}),
        ("(Attached GPUs +): 1", r"\1: 8", {"input.unread": False}),
        ("Attached GPUs +: 1", "", {"input.unread": False}),
        ("Driver Version", "Version", {"input.unread": False}),
    ],
)
def test_gpus_are_judged_as_validate_judges_them(explain, tmp_path, old, new, kinds):
    file = tmp_path / "saved.txt"
    file.write_text(re.sub(old, new, H200) if old else H200)
    code, printed = explain("--json", file)
    (shown,) = json.loads(printed)["inputs"]
    assert {each["kind"]: each["proven"] for each in shown["findings"]} == kinds
    assert code == (ExitCode.FAILED if True in kinds.values() else 4 if kinds else 0)
    file.write_text(H200 + H200)
    code, printed = explain(file)
    assert (code, "2 GPUs, where it names 1 and 1" in printed) == (4, True)


LINKS = "subnet/ibsim/ibnetdiscover-p.txt"
ERRORS = cases(__file__, "errors")


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("node001", "node001 mlx5_1, which the job used, is on leaf-p1-r1 port 1: PortRcvErrors"),
        ("node002", ""),  # its links are right
        ("azl-node-01", "running-config Ethernet9/1 leads to azl-node-01: ECN is off"),
        ("azl-node-0", ""),  # a part of the descriptions
    ],
)
def test_faults_of_links_are_joined_with_the_job_that_used_them(host, said, explain, tmp_path):
    log, errors = tmp_path / "nccl.log", tmp_path / "errors.txt"
    log.write_text(Job().text().replace("node0:", f"{host}:").replace("node1:", "other:"))
    errors.write_text(ERRORS)
    switch = FIXTURES / "switches/arista-7050/running-config.txt"
    code, printed = explain(log, FIXTURES / LINKS, errors, switch)
    assert code == ExitCode.FAILED
    assert "PortRcvErrors 52" in printed
    together = printed.partition("\ntogether\n")[2]
    assert said in together
    assert bool(together) == bool(said)


BANNER = cases(__file__, "banner")


@pytest.mark.parametrize(
    ("card", "rails"),
    [("0xa088c20300bb3514", 8), ("0xa088c20300bb98b4", 7)],  # its own; that of mlx5_10
)
def test_lost_rails_are_rails_of_the_floor(card, rails, explain, tmp_path):
    table, ports = tmp_path / "table.txt", tmp_path / "ibstat.txt"
    table.write_text(BANNER)
    listed = (FIXTURES / "machines/h100-roce-two-rails-down/ibstat.txt").read_text()
    ports.write_text(listed.replace("image GUID: 0xa088c20300bb3514", f"image GUID: {card}"))
    printed = explain(table, ports)[1]
    assert f"--rails {rails} --link-gbps 400" in printed.partition("\ntogether\n")[2], printed


@pytest.mark.parametrize(
    ("device", "mtu", "said", "absent"), cases(__file__, "port_that_others_outrun_is_said")
)
def test_port_that_others_outrun_is_said(device, mtu, said, absent, explain, tmp_path):
    test, text = tmp_path / "bw.txt", (FIXTURES / "perftest/bw-24-mib.txt").read_text()
    test.write_text(re.sub(r"mlx5_\d+", device, text).replace("1024[B]", f"{mtu}[B]"))
    printed = explain(test, FIXTURES / "machines/h100-roce-two-rails-down/ibstat.txt")[1]
    assert (said in printed, absent in printed) == (True, False), printed
    assert 0 < printed.index("mlx5_5: down") < printed.index("mlx5_11: down") < printed.index(said)


def test_verbs_stay_and_a_file_of_their_name_is_given_by_a_path(explain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(FIXTURES / "nccl/h100/ras-healthy.txt", "floor")
    assert explain("floor")[0] == ExitCode.USAGE
    assert explain("./floor")[0] == ExitCode.OK
    code, printed = explain("ncclog")
    assert (code, "nccl-log" in printed) == (ExitCode.USAGE, True)
    assert "no such file" in explain("no.txt")[1]
    assert "is a directory" in explain(tmp_path)[1]


def test_standard_input_is_read(explain, monkeypatch):
    file = FIXTURES / "nccl/h100/ras-healthy.txt"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert explain("-") == (ExitCode.OK, explain(file)[1].replace(str(file), "standard input"))


@pytest.mark.parametrize("place", ["first", "last"])
def test_json_has_what_is_printed(explain, place):
    files = [FIXTURES / "nccl/h100/hang.0.log", FIXTURES / "explain/ibv-devinfo-port-init.txt"]
    words = ["--json", *files] if place == "first" else [*files, "--json"]
    code, printed = explain(*words)
    job, ports = json.loads(printed)["inputs"]
    assert (code, job["input"], job["log"]["transport"]) == (ExitCode.FAILED, "job", "socket")
    assert [each["kind"] for each in ports["findings"]] == ["subnet.manager"]


def test_terminal_gets_no_escapes_and_no_environment(explain, tmp_path):
    table = tmp_path / "a.txt"
    text = (FIXTURES / "nccl/reports/nccl-tests-table.log").read_text()
    table.write_text(
        text.replace("spark-b", "spark\x1b[2Jb").replace("NVIDIA GB10", "\x1b]0;x\x07")
    )
    assert not {"\x1b", "\x07"} & set(explain(table)[1])
