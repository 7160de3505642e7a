"""A record's file: its form, what is refused, what is no longer in it."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rdmaprov.boundary import OddAnswer
from rdmaprov.drift.record import survey_readings
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NoAnswer, NodeError, NodeUnreachable
from rdmaprov.probe.recorded import RecordedProbe, RecordingProbe
from rdmaprov.record import document as file
from rdmaprov.record.anonymous import Pseudonyms
from rdmaprov.record.document import NodeRecord, RecordError, new_document, parse_record, to_bytes
from rdmaprov.record.scrub import Scrub
from rdmaprov.record.site import written_site
from rdmaprov.runs.masks import Mask

NOT_CURED = "/var/lib/rdmaprov/not-cured-by-reboot.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
ROOT = Path(__file__).resolve().parents[2]
READINGS: dict[str, Any] = {
    "root": "/", "user": [0, 0],
    "files": {"/etc/fstab": "none\n", NOT_CURED: None, BOOT_ID: "67b5\n"},
    "directories": {"/etc": ["fstab"]}, "facts": {"has sh": True}, "errors": {},
    "commands": [{"argv": ["uname", "-r"], "stdout": "6.1\n", "exit_code": 0}],
}  # fmt: skip
ANSWERS: dict[str, Answer | str] = {
    "uname -r": Answer(0, "6.1\n", ""),
    "false": Answer(1, "", "no\udcff"),
    "sleep 9": "no answer in 5 s",
}
VARIABLES = {"fabric_kind": "roce", "fabric_rails": [{"netdev": "ens1", "gpus": [0]}]}


def made(**changed: Any) -> dict[str, Any]:
    found = new_document("gpu07", "2026-11-23T12:00:00+00:00", VARIABLES, READINGS, ANSWERS)
    return {**found, **changed}


def parsed(**changed: Any) -> NodeRecord:
    return NodeRecord(parse_record(json.dumps(made(**changed)).encode()))


@pytest.mark.parametrize("compress", [True, False])
def test_record_comes_back(compress):
    found = NodeRecord(parse_record(to_bytes(made(), compress=compress)))
    assert found.document == made()
    assert (found.node, found.variables) == ("gpu07", VARIABLES)
    assert found.readings == READINGS
    assert found.answers == ANSWERS
    probe = RecordedProbe(found.answers)
    assert probe.run("gpu07", "false") == ANSWERS["false"]
    with pytest.raises(NoAnswer, match=r"^gpu07: no answer in 5 s"):
        probe.run("gpu07", "sleep 9")
    with pytest.raises(NoAnswer, match=r"^gpu07: not in the record: reboot"):
        probe.run("gpu07", "reboot")


@pytest.mark.parametrize("compress", [True, False])
def test_record_that_is_cut_anywhere_is_refused(compress):
    data = to_bytes(made(), compress=compress)
    for end in range(len(data) - (1 if compress else 2)):
        with pytest.raises(OddAnswer):
            parse_record(data[:end])


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"format": "rdmaprov record 2"}, "wrong format"),
        ({"more": 1}, "wrong shape"),
        ({"node": "../../etc/cron.d/x"}, "wrong node"),
        ({"node": "n1\x1b[31m"}, "wrong node"),
        ({"node": ""}, "wrong node"),
        ({"node": "n" * 300}, "wrong node"),
        ({"node": 7}, "wrong node"),
        ({"taken": "now\n"}, "wrong taken"),
        ({"anonymous": "yes"}, "wrong anonymous"),
        ({"variables": {"limits_sysctl": "{{ lookup('pipe', 'id') }}"}}, "wrong variables"),
        ({"variables": {"limits_sysctl": {"{% x": 1}}}, "wrong variables"),
        ({"variables": {"ansible_connection": "local"}}, "variables that no role has: ansible_con"),
        ({"variables": {"fabric_rails": deep(40)}}, "wrong variables"),
        ({"variables": []}, "wrong variables"),
        ({"user": [0]}, "wrong user"),
        ({"user": ["root", "root"]}, "wrong user"),
        ({"files": {"/etc/fstab": 7}}, "wrong files"),
        ({"files": []}, "wrong files"),
        ({"directories": {"/": "etc"}}, "wrong directories"),
        ({"facts": {"has sh": deep(40)}}, "wrong facts"),
        ({"facts": {"stamp /": 1 << 70}}, "wrong facts"),
        ({"errors": {"read /": ["SystemExit", "x"]}}, "wrong errors"),
        ({"errors": {"read /": ["OSError", "x"]}}, "wrong errors"),
        ({"errors": {"read /": [["OSError"], 1]}}, "wrong errors"),
        ({"commands": [{"argv": [], "stdout": "", "exit_code": 0}]}, "wrong commands"),
        ({"commands": [{"argv": ["x"], "stdout": "", "exit_code": "0"}]}, "wrong commands"),
        ({"commands": [{"argv": "x", "stdout": "", "exit_code": 0}]}, "wrong commands"),
        ({"checks": [{"argv": ["x"], "stdout": ""}]}, "wrong checks"),
        ({"checks": [{"argv": ["x"], "stdout": None, "exit_code": 0}]}, "wrong checks"),
    ],
)
def test_wrong_values_are_refused(changed, why):
    with pytest.raises(OddAnswer, match=why) as refused:
        parsed(**changed)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no record of rdmaprov"),
        (b"PK\x03\x04", "no record of rdmaprov"),
        (b"[]", "no record of rdmaprov"),
        (b"\xff\xfe{}", "other characters than ASCII"),
        (b"\x1f\x8bnothing", "cannot be decompressed"),
        (b'{"a": {' * 5000 + b"}", "not JSON"),
        (b'{"a": ' * 100_000 + b"1" + b"}" * 100_000, "not JSON"),
        (b'{"format": 1, "format": 2}', "has a key twice: format"),
        (b'{"format": NaN}', "wrong shape"),
        (b'{"format": ' + b"9" * 5000 + b"}", "not JSON"),
        (gzip.compress(b"{}") + b"more", "something behind its end"),
        (gzip.compress(b"{}")[:-4], "it is cut"),
    ],
)
def test_what_is_no_record_is_refused(data, why):
    with pytest.raises(OddAnswer, match=why):
        parse_record(data)


def test_large_file_and_bomb_are_refused_at_once(monkeypatch):
    bomb = gzip.compress(b"{" + b" " * (200 << 20))
    assert len(bomb) < 1_000_000
    begun = time.monotonic()
    with pytest.raises(OddAnswer, match="exceeds 96 MiB when it is decompressed"):
        parse_record(bomb)
    assert time.monotonic() - begun < 10
    monkeypatch.setattr(file, "MOST_FILE_BYTES", 100)
    with pytest.raises(OddAnswer, match="exceeds 0 MiB"):
        parse_record(to_bytes(made(), compress=True))


def test_file_that_is_no_record_names_itself_and_the_remedy(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(RecordError) as refused:
        file.read_record(tmp_path / "x.json")
    assert refused.value.message == f"{tmp_path / 'x.json'}: it has a wrong shape"
    assert refused.value.exit_code == 2
    assert "rdmaprov record" in refused.value.hint


@pytest.mark.parametrize("readings", [None, [], {}, {**READINGS, "more": 1}])
def test_node_without_readings_gives_no_record(readings):
    with pytest.raises(OddAnswer, match="no readings"):
        new_document("n1", "2026", {}, readings, {})


def test_site_of_a_record_is_written_nowhere_else():
    with written_site("..", {"fabric_kind": 'roce"\n- x'}) as site:
        assert [path.name for path in site.rglob("*")] == ["hosts.yml"]
        text = (site / "hosts.yml").read_text()
    assert json.loads(text.removeprefix("---\n"))["recorded"]["hosts"][".."] == {
        "fabric_kind": 'roce"\n- x'
    }
    assert not site.exists()


C = "canary"


@pytest.mark.parametrize(
    "text",
    [
        f"password: {C}",
        f"      password: {C} {C}\n",
        f'    password: "{C} \\" {C}"\n',
        f"psk={C}",
        f"wifi-security.psk: {C}",
        f"wep-key0={C}",
        f"802-1x.private-key-password={C} with blanks",
        f"/etc/wpa.conf\0  psk={C} and {C}\n",
        f'{{"api_key": "{C}", "mtu": 9000}}',
        f"{{'token': '{C}'}}",
        f"tool --password {C} --mtu 9000",
        f"tool\0--token\0{C}\0",
        f"tool --auth-key={C}",
        f"quiet systemd.set_credential=x rd.secret={C} ro",
        f"https://user:{C}@host/path",
        f"deb [trusted=yes] http://{C}@host/ ./",
        f"Authorization: Bearer {C}canary",
        f"machine host login me password {C}",
        f"PrivateKey = {C}",
        f"chpasswd:\n  list: |\n    root:{C}\n    me:{C}\nruncmd: []\n",
        f"  hashed_passwd: $6$salt${C}{C}",
        f"root:$y$j9T${C}{C}:19000:",
        f"-----BEGIN RSA PRIVATE KEY-----\n{C}\n-----END RSA PRIVATE KEY-----\nafter",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{C}\n",
        f"ssh-ed25519 AAAA{C} {C}@host",
        f"AWS=AKIA{C.upper()}{'X' * 10}",
        f"ghp_{C}{'x' * 20}",
        f"eyJhbGci.eyJ{C}.{C}",
        f"AWS_SECRET_ACCESS_KEY={C}",
        f"export NGC_API_KEY='{C}'",
        f"said {C}-of-the-site",
    ],
)
def test_secrets_are_gone(text):
    scrub = Scrub(Mask([f"{C}-of-the-site"]))
    assert C not in scrub.text(text).lower()
    assert scrub.text(scrub.text(text)) == scrub.text(text)


def test_secrets_in_keys_and_command_lines_are_gone():
    scrub = Scrub(Mask([]))
    data = {
        f"ask token={C}": [{"argv": ["login", "--password", C, "name"]}, {"password": C}],
        "stdout": f"password={C}\nmtu 9000",
    }
    assert scrub.data(data) == {
        "ask token=REMOVED": [
            {"argv": ["login", "--password", "REMOVED", "name"]},
            {"password": "REMOVED"},
        ],
        "stdout": "password=REMOVED\nmtu 9000",
    }


@pytest.mark.parametrize(
    "text",
    [
        "auth required pam_unix.so\npassword requisite pam_pwquality.so\n",
        '[{"ifname": "ens1", "mtu": 9000, "flags": ["UP"]}]',
        "NCCL_IB_TC=106\nNCCL_SOCKET_IFNAME==eth0\n",
        "memlock  unlimited\n* soft memlock unlimited\n",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\nmQENBF\n-----END PGP PUBLIC KEY BLOCK-----\n",
        "network:\n  version: 2\n  ethernets:\n    ens1:\n      mtu: 9000\n",
        "root=UUID=3f1c9a52-0001-4e00-9a00-0123456789ab ro pci=realloc=off iommu=pt",
        "options mlx5_core prof_sel=2",
        "https://linux.mellanox.com/public/repo/doca/3.1.0/",
    ],
)
def test_what_is_no_secret_stays(text):
    assert Scrub(Mask([])).text(text) == text


HOSTS = "127.0.0.1 localhost\n10.20.30.7 gpu07.cluster.lan gpu07\n10.20.30.9 store01\n"
SYSFS = "fe80:0000:0000:0000:ba3f:d2ff:fe55:6677"
TEXTS = {
    "/etc/hosts": HOSTS,
    "/ip": "inet 10.1.2.7/24 brd 10.1.2.255 scope global\ninet6 2001:db8:5:6::7/64\n"
    "inet6 fe80::ba3f:d2ff:fe55:6677/64\nlink/ether b8:3f:d2:55:66:77 brd ff:ff:ff:ff:ff:ff",
    "/route": "default via 10.1.2.254 dev ens1\n10.0.0.0/8 via 10.1.2.254\n10.1.2.0/24 dev ens1",
    "/gid": SYSFS,
    "/mapped": "0000:0000:0000:0000:0000:ffff:0a01:0207",
    "/guid": "b83f:d203:0055:6677",
    "/ibstat": "Node GUID: 0xb83fd20300556677\nversion 10.1.0.7-1\nfirmware 28.39.1002",
    "/name": "enxb83fd2556677",
    "/serial": "Serial Number: MT2233X00999\nserial: MT2233X00999",
    "/nm": "[connection]\nuuid=11111111-2222-5333-8444-555555555555\n",
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "",
    "/fs": "UUID=aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee\n11111111-2222-5333-8444-555555555555",
    "/pci": "0000:18:00.0 12:34:56 GPU-aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee",
    "/ipoib": "80:00:02:08:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:55:66:77 brd "
    "00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff",
}  # fmt: skip


def other_texts() -> dict[str, str]:
    node = made(files=TEXTS, variables={"fabric_rails": [{"address": "10.1.2.7/24"}]})
    found = Pseudonyms(node, random.Random(7)).data(node)
    assert found["node"] == "node-1"
    rail = found["variables"]["fabric_rails"][0]["address"]
    assert f"inet {rail} " in found["files"]["/ip"]
    texts: dict[str, str] = found["files"]
    return texts


def test_names_addresses_and_serials_are_others():
    found = other_texts()
    for name in (
        *("gpu07", "cluster", "store01", "10.1.2.", "10.20.30.", "2001:db8:5:", "0a01:0207"),
        *("55:66:77", "fe55:6677", "0055:6677", "556677", "MT2233", "aaaaaaaa"),
    ):
        assert name not in json.dumps(found), name


def test_what_belongs_together_stays_so():
    found = other_texts()
    network = found["/route"].split("\n")[2].split(" ")[0]
    start = network.removesuffix("0/24")
    assert network.endswith(".0/24")
    assert found["/ip"].startswith(f"inet {start}7/24 brd {start}255 ")
    assert found["/route"].startswith(f"default via {start}254 dev ens1\n10.0.0.0/8 via ")
    low = found["/ip"].partition("link/ether b8:3f:d2:")[2][:8].replace(":", "")
    assert found["/gid"] == f"fe80:0000:0000:0000:ba3f:d2ff:fe{low[:2]}:{low[2:]}"
    assert f"fe80::ba3f:d2ff:fe{low[:2]}:{low[2:]}/64" in found["/ip"]
    assert found["/guid"] == f"b83f:d203:00{low[:2]}:{low[2:]}"
    assert found["/ibstat"].startswith(f"Node GUID: 0xb83fd20300{low}\n")
    assert found["/name"] == f"enxb83fd2{low}"
    assert found["/ipoib"].partition(" ")[0].replace(":", "").endswith(f"b83fd20300{low}")
    first, second = found["/serial"].split("\n")
    assert first.split(": ")[1] == second.split(": ")[1]
    assert found["/fs"].split("\n")[0][len("UUID=") :] in found["/pci"]


def test_what_is_no_address_stays():
    found = other_texts()
    assert found["/ibstat"].endswith("\nversion 10.1.0.7-1\nfirmware 28.39.1002")
    assert found["/etc/hosts"].startswith("127.0.0.1 localhost")
    assert found["/pci"].startswith("0000:18:00.0 12:34:56 GPU-")
    assert "brd ff:ff:ff:ff:ff:ff" in found["/ip"]
    assert "00:ff:ff:ff:ff:12:40:1b" in found["/ipoib"]
    assert found["/nm"] == TEXTS["/nm"]
    assert "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c" in found
    assert found["/fs"].endswith("11111111-2222-5333-8444-555555555555")


LIMITS = {
    "limits": {
        "memlock": "unlimited", "memlock_users": [], "memlock_services": [],
        "sysctl": {"kernel.ostype": "Linux"},
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, "limits: not in the record: "),
        ({"root": "/\0"}, "limits: not in the record: "),
        (
            {"errors": {f"read {BOOT_ID}": ["NodeError", "gone"]}, "files": {NOT_CURED: None}},
            "gone",
        ),
        ({"files": {}}, f"not in the record: read {NOT_CURED}"),
        ({"files": {**READINGS["files"], NOT_CURED: deep(2)}}, "survey failed with exit code 1: "),
        ({"facts": {f"exists /proc/{n}": deep(9) for n in range(9)}}, "limits: not in the record"),
    ],
)
def test_survey_of_a_record_that_lacks_all_is_no_verdict(changed, why):
    found = survey_readings({**READINGS, **changed}, LIMITS)
    assert why in found.why
    assert found.survey is None or found.survey.problems


@pytest.mark.parametrize(
    "past",
    [
        "open('/etc/hostname')",
        "open('/tmp/rdmaprov-never', 'w')",
        "open(sys.prefix + '/rdmaprov-never', 'w')",
        "import os; os.open('/etc/hostname', os.O_RDONLY)",
        "import os; os.system('true')",
        "import os; os.remove('/tmp/rdmaprov-never')",
        "import subprocess; subprocess.run(['true'])",
        "import socket; socket.socket().connect(('127.0.0.1', 9))",
        "import ctypes; ctypes.CDLL('libc.so.6')",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')",
        "import tempfile; tempfile.mkdtemp()",
    ],
)
def test_replay_cannot_read_past_the_record(past):
    guard = "from plugins.module_utils.replay import forbid_reading\nforbid_reading()"
    code = f"import sys\n{guard}\n{past}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "NodeError: not in the record: " in done.stderr.splitlines()[-1]


def test_replay_still_imports():
    code = (
        "from plugins.module_utils.replay import forbid_reading\nforbid_reading()\n"
        "import ctypes, decimal, socket, subprocess, tempfile, urllib.request\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    "part", ["password", "a-b.c_", "-----BEGIN ", "ab:cd:", "1.2.3.", " \t", "0a"]
)
def test_text_of_a_hostile_node_takes_no_hours(part):
    text = part * 20_000
    begun = time.process_time()
    clean = Scrub(Mask([])).data(made(files={"/x": text}))
    Pseudonyms(clean, random.Random(7)).data(clean)
    assert time.process_time() - begun < 10


class Says:
    """A probe that has one answer to everything."""

    live = False

    def __init__(self, said: Answer | NodeError) -> None:
        self.said = said

    def run(self, *_: Any) -> Answer:
        if isinstance(self.said, NodeError):
            raise self.said
        return self.said

    def run_all(self, commands: Any, *_: Any) -> Any:
        return dict.fromkeys(commands, self.said)

    def close(self) -> None:
        self.live = True


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("said", "kept", "lost"),
    [
        (Answer(3, "out", "err"), {"x": Answer(3, "out", "err")}, False),
        (NoAnswer("n1: no answer in 5 s: x", "Try"), {"x": "no answer in 5 s: x"}, False),
        (NodeUnreachable("n1: no route", "Try"), {}, True),
    ],
)
def test_what_a_node_says_is_kept_and_passed_on(said, kept, lost, together):
    probe = RecordingProbe(Says(said))
    if together:
        assert probe.run_all({"n1": Command("x", 5)}) == {"n1": said}
    elif isinstance(said, Answer):
        assert probe.run("n1", "x") == said
    else:
        with pytest.raises(type(said)):
            probe.run("n1", "x")
    assert probe.answers == kept
    assert (probe.lost is said) == lost
    probe.live = True
    assert probe.live
    found = RecordedProbe(probe.answers).run_all({"n1": Command("x", 5)})["n1"]
    assert isinstance(found, Answer) == isinstance(said, Answer)
