"""`rdmaprov explain FILE...`: what it answers to texts of each kind, alone and together."""

import io
import json
import shutil
from pathlib import Path

import pytest
import yaml

from rdmaprov import cli
from rdmaprov.exit_codes import ExitCode

FIXTURES = Path(__file__).parents[1] / "fixtures"
EXPECTED = yaml.safe_load((FIXTURES / "explain/expected.yml").read_text())
LOGS = yaml.safe_load((FIXTURES / "nccl/expected.yml").read_text())
# A table and RAS, which `nccl-log` does not read.
OTHERS = {"reports/ras.log", "reports/nccl-tests-table.log"}
AS_LOGS = [each for each in LOGS if "options" not in each and not OTHERS & set(each["logs"])]


def name(case):
    return " ".join(case.get("files") or case["logs"])


@pytest.fixture
def explain(capsys):
    def run(*words):
        code = cli.run(["explain", *map(str, words)])
        return code, "".join(capsys.readouterr())

    return run


@pytest.mark.parametrize("case", EXPECTED, ids=name)
def test_text_is_explained(case, explain):
    code, printed = explain(*(FIXTURES / file for file in case["files"]))
    assert code == case["code"], printed
    assert [word for word in case.get("some", ()) if word not in printed] == [], printed
    assert [word for word in case.get("not", ()) if word in printed] == [], printed


@pytest.mark.parametrize("case", AS_LOGS, ids=name)
def test_logs_of_a_job_are_judged_as_nccl_log_judges_them(case, explain, monkeypatch):
    monkeypatch.chdir(FIXTURES / "nccl")
    code, printed = explain(*case["logs"])
    assert code == case["code"], printed
    assert [word for word in case.get("head", ()) if word not in printed] == [], printed


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
    data = (FIXTURES / "nccl/h100/ras-healthy.txt").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert explain("-") == (
        ExitCode.OK,
        explain(FIXTURES / "nccl/h100/ras-healthy.txt")[1].replace(
            str(FIXTURES / "nccl/h100/ras-healthy.txt"), "standard input"
        ),
    )


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
