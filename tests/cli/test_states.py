"""`validate --from-states`: what nodes signed proves them, or one reason says why not."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from ClusterShell.NodeSet import NodeSet
from tests.program import call
from tests.tables import cases
from tests.unit.helpers.shell import execute
from tests.unit.helpers.states import FAILED, WRONG, SignedFleet, public, sign

from rdmaprov.acceptance.stages import preflight
from rdmaprov.certificate.known_hosts import KnownHosts
from rdmaprov.certificate.ssh_signature import NotSigned, is_by, key_of
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history.answer import read_history
from rdmaprov.node import bundle as program
from rdmaprov.probe.target import Target
from rdmaprov.runs.last_word import PASSED, STALE, UNKNOWN, Word, last_complete, last_words

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/results.schema.json").read_text())
KINDS = ("ed25519", "ecdsa", "rsa")
PURPOSE = program.STATE_NAMESPACE


@pytest.fixture
def fleet(tmp_path: Path) -> SignedFleet:
    return SignedFleet(tmp_path, len(WRONG) + 2)


def keygen(place: Path, kind: str) -> Path:
    path = place / f"ssh_host_{kind}_key"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", path], check=True)
    return path


def public_of(path: Path) -> str:
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


def test_each_odd_state_is_named_with_its_reason_and_all_others_are_proven(fleet: SignedFleet):
    for name, what in zip(fleet.names, WRONG, strict=False):
        fleet.write(name, what)
    given = (fleet.site, "--from-states", "states", "--json", "out")
    done = call("validate", *given, cwd=fleet.place)
    assert done.returncode == ExitCode.FAILED, done.stdout + done.stderr
    data = json.loads((fleet.place / "out").read_text())
    jsonschema.validate(data, SCHEMA)
    kinds = {each["node"]: each["kind"] for each in data["checks"]}
    assert kinds == dict(zip(fleet.names, (kind for kind, _ in WRONG.values()), strict=False))
    for name, own in data["nodes"].items():
        state = "failed" if kinds.get(name) in FAILED else "unknown" if name in kinds else "passed"
        assert (own["state"], own["complete"]) == (state, name not in kinds), name
    lines = [line.split(": ")[:2] for line in done.stdout.splitlines()]
    odd = [each[0] for each in lines if each[1:] in (["unknown"], ["failed"], ["pending"])]
    assert {*NodeSet.fromlist(odd)} == {*kinds}
    *_, good = fleet.names
    assert "proven by states that are 1 h" in done.stdout
    assert "failed: mtu: \\x1b[31mens1 is missing (1 h" in done.stdout, "no terminal obeys it"
    runs = fleet.place / "runs"
    assert f"{good}: proven (1 h" in next(runs.glob("*/logs/states.log")).read_text()
    last = last_words(fleet.site, [good], runs)
    facts = {good: {"boot_id": last[good].boot_id}}
    assert not preflight.run_state(last, [good]).findings
    assert not preflight.other_boots(last, facts)
    assert preflight.other_boots(last, {good: {"boot_id": "another"}})
    assert not last_complete(fleet.site, runs), "no kernel's log was read"
    history = read_history(fleet.site, runs)
    assert (len(history.runs), history.unread) == (1, [])


def test_right_states_are_0_and_one_that_is_unknown_4(fleet: SignedFleet):
    words = ("-v", "validate", "site", "--from-states", "states")
    done = call(*words, cwd=fleet.place)
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert done.stdout.count("proven (1 h") == len(fleet.names)
    (fleet.states / "n0001.state").unlink()
    assert call(*words, cwd=fleet.place).returncode == ExitCode.UNKNOWN
    assert len(list(fleet.place.glob("runs/*/report.html"))) == 2


def test_age_has_a_limit_that_an_option_sets(fleet: SignedFleet):
    name, *_ = fleet.names
    fleet.write(name, "stale")
    words = ("validate", "site", "--limit", name, "--from-states", "states")
    said = call(*words, cwd=fleet.place)
    assert said.returncode == ExitCode.UNKNOWN
    assert "too old; the limit is 24 h (--max-age) (25 h" in said.stdout
    assert call(*words, "--max-age", "26", cwd=fleet.place).returncode == ExitCode.OK


@pytest.mark.parametrize(
    "words",
    [
        ("--from-states", ".", "--hosts", "local://"),
        ("--from-states", ".", "--idle"),
        ("--from-states", ".", "-k", "mtu"),
        ("--from-states", ".", "--record", __file__),
        ("--from-states", ".", "--max-age", "0"),
    ],
)
def test_options_that_exclude_states_are_refused(tmp_path: Path, words: tuple[str, ...]):
    assert call("validate", "site", *words, cwd=tmp_path).returncode == ExitCode.USAGE


@pytest.mark.parametrize("kind", KINDS)
def test_signature_of_ssh_keygen_is_verified_and_no_other(tmp_path: Path, kind: str):
    key = keygen(tmp_path, kind)
    words = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", PURPOSE]
    armored = execute(words, input="x").stdout
    assert key_of(b"x", armored, PURPOSE) == public_of(key)
    for data, purpose in ((b"y", PURPOSE), (b"x", "file"), (b"", PURPOSE)):
        with pytest.raises(NotSigned):
            key_of(data, armored, purpose)


def test_ssh_keygen_verifies_what_tests_sign(fleet: SignedFleet):
    key = fleet.keys["n0001"]
    assert is_by(b"x", sign(b"x", key).encode(), PURPOSE, [public(key)])


def test_file_with_one_bit_changed_proves_nothing_else(fleet: SignedFleet):
    name, *_ = fleet.names
    path, judge = fleet.states / f"{name}.state", fleet.judge()
    data = path.read_bytes()
    told = json.loads(data)["signed"]
    refused = 0
    for place in range(0, len(data), 3):
        bit = 1 << fleet.random.randrange(8)
        path.write_bytes(data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :])
        proof, _ = judge.judge_node(name, path)
        refused += proof.state == UNKNOWN
        assert proof.state == UNKNOWN or json.loads(path.read_bytes())["signed"] == told
    assert refused > len(data) // 3 * 0.95, "its armor and a bit of base64 say nothing"


def test_nodes_with_one_host_key_are_not_told_apart(fleet: SignedFleet):
    first, second, third, *_ = fleet.names
    fleet.keys[second] = fleet.keys[first]
    fleet.write(second)
    with (fleet.place / "known_hosts").open("a") as file:
        file.write(f"{second} {public(fleet.keys[first])}\n")
    found = {each.node: each for each in fleet.judge().judge(fleet.states)}
    assert {found[each].kind for each in (first, second)} == {"proof.signer"}
    assert found[third].state == PASSED


LINES = cases(__file__, "lines")


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("name", ["n1", "[n1]:2222"])
def test_host_key_is_known_as_ssh_knows_it(tmp_path: Path, name: str, hashed: bool):
    file, port = tmp_path / "known_hosts", "22" if name == "n1" else "2222"
    options = ("-F", "/dev/null", "-o", f"UserKnownHostsFile={file}", "-o", f"Port={port}")
    target = Target("n1", "n1", ("ssh", *options, "n1"), "python3", 10)
    own, other = (public_of(keygen(tmp_path, kind)) for kind in KINDS[:2])
    for line, is_right in LINES.items():
        text = line.format(key=own, other=other, n=name, N=name.upper())
        is_known = is_right and (port == "22" or "{n}" in line.lower())
        file.write_text(text + "\n")
        if hashed:
            execute(["ssh-keygen", "-H", "-f", str(file)])
        elif "@" not in text:
            said = execute(["ssh-keygen", "-F", name, "-f", str(file)]).stdout
            assert (own in said) == is_known, line
        assert KnownHosts().has(target, own) == is_known, text


def test_name_that_only_ssh_s_settings_make_is_found(tmp_path: Path):
    key = keygen(tmp_path, "ed25519")
    (tmp_path / "config").write_text("Host n1\n  HostKeyAlias rack1-n1\n")
    (tmp_path / "known_hosts").write_text(f"rack1-n1 {public_of(key)}\n")
    argv = ("ssh", "-F", f"{tmp_path}/config", "-o", f"UserKnownHostsFile={tmp_path}/known_hosts")
    known = KnownHosts()
    found = [
        known.has(Target(n, n, (*argv, n), "python3", 10), public_of(key)) for n in ("n1", "n2")
    ]
    assert found == [True, False]


@pytest.mark.parametrize(
    ("word", "is_proven"),
    [
        (Word(STALE, "29990101-000000-apply", "own", 500.0), False),
        (Word(STALE, "29990101-000000-apply", "own", 300.0), True),
        (Word(STALE, "29990101-000000-apply"), False),
        (Word(STALE, "20200101-000000-apply"), True),
        (Word(PASSED, "29990101-000000-validate", "another", 5.0), False),
        (Word(PASSED, "20200101-000000-validate", "another", 5.0), True),
        (Word(UNKNOWN, "29990101-000000-validate"), True),
    ],
)
def test_newer_boot_or_change_in_a_run_counts(fleet: SignedFleet, word: Word, is_proven: bool):
    name, path = "n0001", fleet.states / "n0001.state"
    boot = json.loads(json.loads(path.read_text())["signed"])["boot_id"]
    own = replace(word, boot_id=word.boot_id.replace("own", boot))
    proof, _ = fleet.judge(words={name: own}).judge_node(name, path)
    assert (proof.state == PASSED, proof.kind) == (is_proven, "" if is_proven else "proof.stale")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("why", ["", "\U0001f525\x00" * 5000])
def test_node_signs_with_a_host_key_that_it_has(
    fleet: SignedFleet, monkeypatch: pytest.MonkeyPatch, kind: str, why: str
):
    name, *_ = fleet.names
    key, path = keygen(fleet.place, kind), fleet.states / f"{name}.state"
    (fleet.place / "known_hosts").write_text(f"{name} {public_of(key)}\n")
    monkeypatch.setattr(program, "HOST_KEYS", f"{fleet.place}/ssh_host_*_key")
    monkeypatch.setattr(program, "STATE", str(fleet.place / "state.json"))
    monkeypatch.setattr(program, "SIGNED_STATE", str(path))
    state = fleet.said(name, why=why, verdict="failed" if why else "proven")
    state["roles"] = {each: {"state": "", "kind": "", "why": why} for each in fleet.roles}
    program.write_state(state)
    proof, signer = fleet.judge().judge_node(name, path)
    assert (proof.kind, signer) == ("proof.failed" if why else "", public_of(key)), proof.text
    assert state["unsigned"] == ""
    key.unlink()
    program.write_state(state)
    assert fleet.judge().judge_node(name, path)[0].kind == "proof.unsigned"
    assert state["unsigned"]
