"""`rdmaprov record`, and plan and validate of what it wrote; this machine is the node."""

import gzip
import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.cli.namespaced import hosts, needs_namespace, rdmaprov
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write

RECORD = "n1.record.json.gz"
SETTING = "kernel.randomize_va_space"
VALUE = "/proc/sys/kernel/randomize_va_space"
PASSWORD, KEY, TOKEN, SUDO = "canary-password", "Y2FuYXJ5LWtleQ", "canary-token", "canary-sudo"
# What a machine has in files that roles or suite read whole.
CANARIES = cases(__file__, "canaries")

pytestmark = [needs_namespace]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if Path("/etc/sysctl.d/99-z-rdmaprov-limits.conf").exists():
        pytest.skip("this machine is a node")
    directory = tmp_path_factory.mktemp("record")
    files = directory / "node" / "sysctl.d"
    files.mkdir(parents=True)
    (files / "canary.conf").write_text(CANARIES)
    value = Path(VALUE).read_text().strip()
    variables = (
        f"limits_memlock_users: []\nlimits_memlock_services: []\n"
        f"limits_sysctl: {{{SETTING}: {value}}}\nansible_become_pass: {SUDO}\n"
    )
    closed = "ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1"
    named = f"{{n1: {{unit: 1}}, n2: {{unit: 2, {closed}}}}}"
    site = {
        **GOOD,
        "hosts.yml": hosts(directory, named, {"sysctl.d": "/etc/sysctl.d"}),
        "group_vars/nodes.yml": f"---\n{variables}",
    }
    write(directory / "site", site)
    code, said = rdmaprov(directory, "record", "site", "--limit", "n1")
    assert code == 0, said
    assert said.startswith("wrote n1.record.json.gz: ")
    assert not (directory / "runs").exists()  # as long as no other verb was run here
    return directory


def read(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((place / RECORD).read_bytes()))
    return found


def results(place: Path, *words: str) -> dict[str, Any]:
    file = place / "results.json"
    code, said = rdmaprov(place, *words, "--json", str(file))
    found: dict[str, Any] = json.loads(file.read_text())
    assert found["exit_code"] == code, said
    for name in ("started", "ended", "seconds", "site", "limit"):
        found.pop(name)
    for node in found["nodes"].values():
        node.pop("seconds", None)
    return found


def outcomes(found: dict[str, Any]) -> dict[str, Any]:
    """Return outcome and message of each check, without links that other tests make meanwhile."""
    return {
        each["test"]: (each["outcome"], re.sub(r"/sys/class/net has [^)]*", "", each["message"]))
        for each in found["checks"]
    }


def test_record_is_small_private_and_without_secrets(place: Path):
    file = place / RECORD
    assert file.stat().st_size < 5_000_000
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = gzip.decompress(file.read_bytes()).decode()
    for canary in (PASSWORD, KEY, TOKEN, SUDO):
        assert canary not in text
    (files,) = {each["stdout"] for each in read(place)["checks"] if "vm.canary" in each["stdout"]}
    kept = [line.partition("\0")[2] for line in files.splitlines() if "canary.conf" in line]
    assert kept[-1] == "vm.canary = 1"
    assert "".join(kept).count("REMOVED") == 4


def test_record_has_what_the_museum_calls_so(place: Path):
    found = read(place)
    assert found["files"][VALUE] == Path(VALUE).read_text()
    assert found["commands"]
    assert all(isinstance(each["argv"], list) for each in found["commands"] + found["checks"])
    assert found["variables"]["limits_memlock_users"] == []
    assert not [name for name in found["variables"] if name.startswith("ansible_")]


def test_verdicts_of_the_record_are_the_nodes(place: Path):
    record = ("--record", RECORD)
    live = results(place, "validate", "site", "--limit", "n1")
    again = results(place, "validate", *record)
    named = {
        test: (one, why.replace(" SITE ", " site ")) for test, (one, why) in outcomes(again).items()
    }
    assert named == outcomes(live)
    assert again["counts"] == live["counts"]
    assert live["counts"]["passed"] >= 3
    planned = results(place, "plan", "site", "--limit", "n1", "--roles", "limits")
    assert planned["nodes"]["n1"]["state"] == "pending"
    assert planned["nodes"]["n1"].pop("uptime_s") > 0
    replayed = results(place, "plan", "site", *record, "--roles", "limits")
    assert replayed["nodes"]["n1"].pop("uptime_s") == 0  # a record says nothing of now
    assert replayed == planned


def test_altered_record_is_judged_as_altered(place: Path):
    before, found = read(place), read(place)
    found["files"][VALUE] = "17\n"
    altered = [each for each in found["checks"] if VALUE in each["stdout"]]
    for each in altered:
        lines = each["stdout"].splitlines(keepends=True)
        each["stdout"] = "".join(
            f"{VALUE}\x0017\n" if line.startswith(f"{VALUE}\0") else line for line in lines
        )
    assert altered
    assert found != before
    (place / "altered.json").write_text(json.dumps(found))
    words = ("--record", "altered.json")
    (node,) = results(place, "plan", *words, "--roles", "limits")["nodes"].values()
    changes = {(each["layer"], each["seen"]) for each in node["changes"]["limits"]}
    assert ("running", "17") in changes
    judged = outcomes(results(place, "validate", *words, "-k", "sysctl or limits"))
    assert [why for one, why in judged.values() if one == "failed" and "is 17" in why]


def test_what_is_not_in_the_record_is_unknown(place: Path):
    found = read(place)
    found["checks"] = []
    found["commands"] = []
    found["files"] = {}
    (place / "empty.json").write_text(json.dumps(found))
    judged = results(place, "validate", "--record", "empty.json")
    assert judged["counts"]["passed"] == 0
    assert judged["counts"]["failed"] == 0
    assert "not in the record: " in json.dumps(judged)
    planned = results(place, "plan", "--record", "empty.json", "--roles", "limits")
    assert planned["nodes"]["n1"]["state"] == "failed"
    assert "not in the record: " in planned["nodes"]["n1"]["problems"][0]


def test_cut_record_is_one_clear_line(place: Path):
    data = (place / RECORD).read_bytes()
    (place / "cut.gz").write_bytes(data[:-100])
    (place / "cut.json").write_bytes(gzip.decompress(data)[:-100])
    for verb in ("plan", "validate"):
        for name in ("cut.gz", "cut.json"):
            code, said = rdmaprov(place, verb, "--record", name)
            assert code == 2, said
            assert said.splitlines()[0] == f"error: {name}: it is cut: its end is missing"
            assert len(said.splitlines()) == 2


def test_anonymous_record_has_the_same_verdicts(place: Path):
    words = ("record", "site", "--limit", "n1", "--anonymous", "--output", "anonymous.json")
    code, said = rdmaprov(place, *words)
    assert code == 0, said
    text = (place / "anonymous.json").read_text()
    found = json.loads(text)
    assert found["node"] == "node-1"
    assert found["anonymous"] is True
    assert "198.18." not in text.replace("198.18.0.0/15", "")
    assert not re.search(r"(?<![\w.-])n1(?![\w-])", text.replace("\\n", " "))
    judged = outcomes(results(place, "validate", "--record", "anonymous.json"))
    live = outcomes(results(place, "validate", "--record", RECORD))
    assert {test.replace("[node-1", "[n1"): one for test, (one, _) in judged.items()} == {
        test: one for test, (one, _) in live.items()
    }


def test_unreachable_node_has_no_record(place: Path):
    code, said = rdmaprov(place, "record", "site", "--limit", "n2")
    assert code == 4
    assert "n2: ssh: connection refused" in said
    assert not list(place.glob("n2*"))


def test_workers_of_xdist_are_refused(place: Path):
    code, said = rdmaprov(place, "validate", "--record", RECORD, "-n", "2")
    assert (code, "-n is gone" in said) == (2, True), said
