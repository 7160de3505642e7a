"""A node that applies the bundle of its site by itself, and proves or refuses it."""

import ast
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.namespaced import needs_namespace
from tests.program import call
from tests.pull_nodes import sign_text
from tests.pull_nodes import signed as content
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.certificate.ssh_signature import key_of
from rdmaprov.exit_codes import ExitCode
from rdmaprov.node import bundle as program

pytestmark = pytest.mark.program

MODINFO = Path(__file__).parents[1] / "fixtures" / "modinfo" / "mlx5_core.txt"
PAGE = Path(__file__).parents[2] / "docs/pull.md"
WRITTEN = "etc/modprobe.d/rdmaprov.conf"
# Nothing of this machine changes: the driver has a parameter that only a reboot changes, and the
# kernel the value that it has anyway.
VARIABLES = cases(__file__, "variables")
OWN = "---\nlimits_sysctl: {kernel.ostype: Linux, kernel.domainname: only-of-n2}\n"
PROGRAM = (sys.executable, "-I", "/usr/local/sbin/rdmaprov-node")
UNSHARE = ("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
MOUNTS = {
    "etc": "/etc",
    "lib": "/var/lib",
    "run": "/run",
    "module": "/sys/module",
    "bin": "/usr/local/sbin",
    "boot_id": "/proc/sys/kernel/random/boot_id",
}
BOOTS = [f"{number}7b5c1f0-0000-4000-8000-000000000000" for number in range(1, 6)]
# Where the node is to hang, it does so once the role has written its file. A reboot ends what runs.
PROGRAMS = {
    "modinfo": f"[ -e /run/hang ] && [ -e /{WRITTEN} ] && exec sleep 300\ncat {MODINFO}\n",
    "systemctl": 'case $* in *list-jobs) ;; *) echo "$*" >>/run/asked ;; esac\n'
    '[ "$*" != reboot ] || kill $PPID\n',
}


def key(place: Path, name: str) -> Path:
    """Return a new private key, whose public one is beside it."""
    made = place / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", made], check=True)
    return made


class Compiled:
    """A site, and the bundles of its nodes."""

    def __init__(self, place: Path) -> None:
        self.place, self.key = place, key(place, "key")
        own = {"group_vars/nodes.yml": VARIABLES, "host_vars/n2.yml": OWN}
        write(place / "site", {**GOOD, **own})

    def compile(self, out: str = "out", *words: object) -> tuple[int, str]:
        given = ("site", "--out", out, "--key", self.key, "--roles", "mlx5,limits", *words)
        done = call("compile", *given, cwd=self.place)
        return done.returncode, done.stdout + done.stderr

    def sign(self, text: str, by: Path | None = None, purpose: str = program.NAMESPACE) -> str:
        return sign_text(text, by or self.key, purpose)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    made = Compiled(tmp_path_factory.mktemp("compiled"))
    assert made.compile()[0] == ExitCode.OK
    return made


class Node:
    """A node on this machine, with directories of its own."""

    def __init__(self, place: Path, compiled: Compiled) -> None:
        self.place = place
        for name in ("lib", "run", "module/mlx5_core/parameters", "etc/modprobe.d", "bin"):
            (place / name).mkdir(parents=True)
        for name in ("rdmaprov", "ssh"):
            (place / "etc" / name).mkdir()
        key(place / "etc/ssh", "ssh_host_ed25519_key")
        for name in ("passwd", "group", "ld.so.cache"):
            if Path("/etc", name).exists():
                shutil.copy(Path("/etc", name), place / "etc")
        for name, text in PROGRAMS.items():
            (place / "bin" / name).write_text(f"#!/bin/sh\n{text}")
            (place / "bin" / name).chmod(0o755)
        public = compiled.key.with_suffix(".pub").read_text()
        (place / "etc/rdmaprov/signers").write_text(f"ops@site,second@site {public}")
        (place / "module/mlx5_core/initstate").write_text("live\n")
        shutil.copy(compiled.place / "out/rdmaprov-node", place / "bin")
        self.bundle = place / "etc/rdmaprov/bundle"
        shutil.copy(compiled.place / "out/n1.bundle", self.bundle)
        self.boot(0, "2")

    def boot(self, number: int, parameter: str) -> None:
        """Be in another boot, with this parameter of the driver."""
        (self.place / "boot_id").write_text(f"{BOOTS[number]}\n")
        shutil.rmtree(self.place / "run")
        (self.place / "run/systemd/system").mkdir(parents=True)
        own = self.place / "module/mlx5_core/parameters/prof_sel"
        own.unlink(missing_ok=True)
        own.write_text(f"{parameter}\n")
        own.chmod(0o444)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a program that sees no other process, as somebody may use this machine."""
        mounts = " && ".join(f"mount --bind {own} {at}" for own, at in MOUNTS.items())
        started = f"hostname n1 && {mounts} && cd / && exec {shlex.join(words)}"
        return subprocess.Popen(
            [*UNSHARE, "sh", "-c", started],
            cwd=self.place,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def shell(self, *words: str) -> tuple[int, str]:
        process = self.start(*words)
        said, _ = process.communicate(timeout=300)
        return process.returncode, said

    def __call__(self, *words: str) -> tuple[int, str]:
        # Not the first process, which no signal of another one ends.
        return self.shell("sh", "-c", f"{shlex.join([*PROGRAM, *words])}; exit $?")

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.place / "lib/rdmaprov/state.json").read_text())
        return found

    def signed_state(self) -> tuple[str, str, str, set[str]]:
        """Return what the node signed with its host key: its name, verdict, boot and roles."""
        signed = json.loads((self.place / "lib/rdmaprov/state.signed").read_text())
        host_key = (self.place / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2]
        text = signed["signed"].encode()
        assert key_of(text, signed["signature"], program.STATE_NAMESPACE).split() == host_key
        said = json.loads(signed["signed"])
        assert said["site"] == self.state["site"]
        return said["node"], said["verdict"], said["boot_id"], set(said["roles"])

    def asked(self) -> list[str]:
        path = self.place / "run/asked"
        return path.read_text().splitlines() if path.exists() else []

    def tree(self) -> dict[str, str]:
        """Return the digest of each file of the node, but for its state and lock."""
        return {
            str(path.relative_to(self.place)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.place.rglob("*"))
            if path.is_file()
            and path.name not in ("state.json", "state.signed", "lock", "bundle", "signers")
        }


@pytest.fixture
def node(tmp_path: Path, compiled: Compiled) -> Node:
    return Node(tmp_path, compiled)


@needs_namespace
def test_node_applies_reboots_once_and_is_proven_for_one_boot(node: Node):
    assert node("apply", "/etc/none")[0] == ExitCode.UNKNOWN
    assert node("check") == (1, "no proof: /etc/rdmaprov/bundle: it was not applied\n")
    code, said = node("apply", "--reboot")
    assert code == ExitCode.PENDING, said
    assert said.startswith("pending: reboot required: mlx5: ")
    assert node.asked() == ["reboot"]
    assert "prof_sel=1" in (node.place / WRITTEN).read_text()
    assert {role: each["state"] for role, each in node.state["roles"].items()} == {
        "mlx5": "changed",
        "limits": "changed",
    }
    assert (node.place / "lib/rdmaprov/state.json").stat().st_mode & 0o777 == 0o600
    assert node("check")[0] == 1
    code, said = node("apply", "--reboot")
    assert (code, node.asked()) == (ExitCode.PENDING, ["reboot"]), "one reboot for one cause"
    assert "asked for already" in said
    node.boot(1, "1")
    before = node.tree()
    assert node("check")[1].endswith("it was not applied in this boot\n")
    code, said = node("apply", "--reboot")
    assert (code, said[:15]) == (0, "proven: bundle "), said
    assert (node.tree(), node.asked()) == (before, [])
    assert {each["state"] for each in node.state["roles"].values()} == {"unchanged"}
    assert node("check") == (0, said)
    assert node.signed_state() == ("n1", "proven", BOOTS[1], {"mlx5", "limits"})
    node.boot(2, "1")
    assert node("check")[0] == 1


# Where the certificate is valid.
HEALTH = """\
from rdmaprov.certificate.node import health
health.check_node = lambda root: (0, "valid")
raise SystemExit(health.main())
"""


@needs_namespace
def test_health_check_says_what_was_proven_and_unknown_is_not(node: Node):
    def health() -> tuple[int, str, set[str]]:
        code, said = node.shell(sys.executable, "-c", HEALTH)
        lines = (node.place / "lib/rdmaprov/health.prom").read_text().splitlines()
        own = [each for each in lines if each.startswith("rdmaprov_pull_")]
        assert len({each.split()[0] for each in own}) == len(own)
        at = [each.split()[1] for each in own if "_timestamp_seconds " in each]
        assert all(abs(float(each) - time.time()) < 600 for each in at)
        return code, said, {each.split("_", 2)[2] for each in own if each.endswith(" 1")}

    def expect(code: int, state: str, kind: str, text: str) -> None:
        found = health()
        reason = {f'reason{{kind="{kind}"}} 1'} if kind else set()
        assert (found[0], found[2]) == (code, {f'state{{state="{state}"}} 1'} | reason), found
        assert f"valid\npull: {text}" in found[1]

    (node.place / "lib/rdmaprov").mkdir()  # an acceptance makes it, and leaves the check
    expect(1, "unknown", "not_applied", "no proof: /etc/rdmaprov/bundle: it was not applied\n")
    node("apply")
    expect(1, "pending", "reboot", "pending: reboot required: mlx5: ")
    node.boot(1, "1")
    expect(1, "unknown", "boot", "no proof: ")
    node("apply")
    expect(0, "proven", "", "proven: bundle ")
    assert "; 0.0 h old\n" in health()[1]
    good = node.bundle.read_text()
    node.bundle.write_text(good.replace("rdmaprov_bundle", "rdmaprov_bundlE"))
    node("apply")
    expect(1, "unknown", "refused", "no proof: /etc/rdmaprov/bundle: its signature ")
    node.bundle.unlink()
    expect(4, "unknown", "unreadable", "unknown: /etc/rdmaprov/bundle: No such file")
    node.bundle.write_text(good)
    (node.place / "lib/rdmaprov/state.json").write_text('{"bundle": ')
    expect(4, "unknown", "unreadable", "unknown: /var/lib/rdmaprov/state.json: it is damaged")
    shutil.rmtree(node.place / "lib/rdmaprov")
    (node.place / "lib/rdmaprov").mkdir()
    node.bundle.unlink()
    code, said, own = health()
    assert (code, said, own) == (0, "valid\n", set()), "it is no node that applies by itself"


@needs_namespace
def test_cause_that_a_reboot_did_not_cure_asks_for_no_other(node: Node):
    assert node("apply", "--reboot")[0] == ExitCode.PENDING
    for boot in (1, 2):
        node.boot(boot, "2")
        code, said = node("apply", "--reboot")
        assert (code, node.asked()) == (ExitCode.FAILED, []), said
        assert node.state["roles"]["mlx5"]["kind"] == "not_cured"
    node.boot(3, "1")
    assert node("apply")[0] == 0
    node.boot(4, "2")
    assert node("apply", "--reboot")[0] == ExitCode.PENDING, "it is a new cause"
    assert node.asked() == ["reboot"]


def wrong_bundles(compiled: Compiled, place: Path) -> dict[str, tuple[str, str]]:
    """Return, by its kind, a bundle that is to be refused, and why."""
    file = (compiled.place / "out/n1.bundle").read_text()
    bundle = json.loads(file)
    own = json.loads(bundle["signed"])

    def changed(**values: object) -> str:
        return json.dumps({**own, **values})

    def signed(**values: object) -> str:
        return compiled.sign(changed(**values))

    unsigned, other = "its signature is of no key", key(place, "other")
    return {
        "tampered": (json.dumps({**bundle, "signed": changed(arguments={})}), unsigned),
        "not signed": (json.dumps({"signed": changed(), "signature": ""}), unsigned),
        "of another key": (compiled.sign(changed(), other), unsigned),
        "of another purpose": (compiled.sign(changed(), purpose="file"), unsigned),
        "of another node": ((compiled.place / "out/n2.bundle").read_text(), "it is for n2, and "),
        "older": (signed(number=own["number"] - 1), "it is older (number "),
        "with an old number": (signed(arguments={}), "another bundle with its number "),
        "of another version": (signed(rdmaprov_bundle=2), "it is no bundle of version 1"),
        "cut": (file[:-9], "it is damaged"),
        "a list": ("[]", "it is damaged"),
    }


@needs_namespace
def test_wrong_bundle_is_refused_with_one_line_and_changes_nothing(
    node: Node, compiled: Compiled, tmp_path_factory: pytest.TempPathFactory
):
    node.boot(0, "1")
    assert node("apply")[0] == 0
    (node.place / WRITTEN).unlink()  # what a bundle that is taken would write again
    good, before = node.bundle.read_bytes(), node.tree()
    for kind, (text, why) in wrong_bundles(compiled, tmp_path_factory.mktemp("keys")).items():
        node.bundle.write_text(text)
        code, said = node("apply", "--reboot")
        assert (code, said.count("\n"), node.tree()) == (ExitCode.FAILED, 1, before), (kind, said)
        assert why in said, kind
        assert why in node.state["refused"]["why"], kind
        assert why in node("check")[1], kind
    node.bundle.write_bytes(good)
    assert node("check")[0] == 0, "what was proven before still is"


@needs_namespace
def test_signers_that_others_can_write_and_none_are_refused(node: Node):
    signers = node.place / "etc/rdmaprov/signers"
    signers.chmod(0o666)
    before = node.tree()
    assert node("apply")[1].endswith("/signers: users other than root can change it\n")
    signers.unlink()
    code, said = node("apply")
    assert (code, said.count("\n")) == (ExitCode.UNKNOWN, 1)
    assert said.endswith("/signers: No such file or directory\n")
    assert node.tree() == before


@needs_namespace
def test_run_that_is_killed_leaves_no_proof_and_the_next_one_repairs(node: Node):
    node.boot(0, "1")
    (node.place / "run/hang").touch()
    process = node.start(*PROGRAM, "apply")
    end = time.monotonic() + 120
    while not (node.place / WRITTEN).exists():
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.05)
    code, said = node("apply")
    assert (code, said) == (ExitCode.UNKNOWN, "error: another run holds the node\n")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (node.place / "run/hang").unlink()
    assert node("check")[0] == 1
    assert node.state["kind"] == "interrupted"
    assert node.signed_state()[1] == "unknown"
    code, said = node("apply")
    assert code == 0, said
    assert node.state["roles"]["limits"]["state"] == "changed", "it was not reached before"


@needs_namespace
def test_node_that_a_controller_holds_is_left_alone(node: Node):
    record = {"holder": {"id": "1", "run": "20261128-060011-apply"}, "until": 1e9}
    (node.place / "run/rdmaprov").mkdir()
    record["until"] = time.clock_gettime(time.CLOCK_BOOTTIME) + 600
    (node.place / "run/rdmaprov/lock.json").write_text(json.dumps(record))
    before = node.tree()
    assert node("apply") == (ExitCode.UNKNOWN, "error: another run holds the node\n")
    assert node.tree() == before


@needs_namespace
def test_busy_node_is_not_rebooted_and_not_changed(node: Node):
    device = node.place / "dev/infiniband/uverbs0"
    device.parent.mkdir(parents=True)
    device.touch()
    job = f"exec 3<{device}; {shlex.join(PROGRAM)} apply --reboot"
    code, said = node.shell("sh", "-c", f"{job}; exit $?")
    assert (code, node.state["kind"]) == (ExitCode.FAILED, "busy"), said
    assert "busy: pid 1 of root, sh: /dev/infiniband/uverbs0. " in said
    assert not (node.place / WRITTEN).exists()
    assert node.asked() == []
    assert node.shell("sh", "-c", f"{job} --force-busy; exit $?")[0] == ExitCode.PENDING


@needs_namespace
@pytest.mark.parametrize("state", ["{", "[1]", '{"number": "x"}'])
def test_damaged_state_is_unknown_to_both_verbs(node: Node, state: str):
    (node.place / "lib/rdmaprov").mkdir()
    (node.place / "lib/rdmaprov/state.json").write_text(state)
    before = node.tree()
    codes = {node(verb)[0] for verb in ("apply", "check")}
    assert ExitCode.UNKNOWN in codes
    assert 0 not in codes
    assert node.tree() == before


@needs_namespace
def test_image_gets_what_a_boot_reads_and_the_machine_that_builds_keeps_its_values(
    node: Node, compiled: Compiled
):
    shutil.copy(compiled.place / "out/n2.bundle", node.bundle)
    (node.place / "run/systemd/system").rmdir()
    code, said = node("apply", "--node", "n2")
    assert (code, "add --layer configured" in said) == (ExitCode.USAGE, True), said
    words = [*PROGRAM, "apply", "--node", "n2", "--layer", "configured"]
    assert node.shell(*words, "--reboot")[0] == ExitCode.USAGE
    assert node("apply", *words[-2:])[1].endswith("it is for n2, and this is n1\n")
    code, said = node.shell("sh", "-c", f"{shlex.join(words)} && cat /proc/sys/kernel/domainname")
    assert (code, "limits (1 set)" in said) == (0, True), said
    assert said.splitlines()[-1] != "only-of-n2"
    written = node.place / "etc/sysctl.d/99-z-rdmaprov-limits.conf"
    assert "kernel.domainname = only-of-n2\n" in written.read_text()
    assert (node.asked(), list((node.place / "lib").iterdir())) == ([], [])


@needs_namespace
def test_job_daemon_starts_with_a_proof_or_where_the_program_fails(node: Node):
    """The lines of the page, by the shell that systemd would start."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("ExecCondition=")]
    usual, strict = (shlex.split(line.partition("=")[2].replace("$$", "$")) for line in lines)
    installed = node.place / "bin/rdmaprov-node"
    starts = installed.read_text().replace("/usr/bin/python3 -I", f"{sys.executable} -I", 1)
    installed.write_text(starts)
    assert node("check")[0] == 1
    assert [node.shell(*line)[0] == 0 for line in (usual, strict)] == [False, False]
    node.bundle.unlink()
    assert node("check")[0] == ExitCode.UNKNOWN
    assert [node.shell(*line)[0] == 0 for line in (usual, strict)] == [True, False]
    installed.unlink()
    assert [node.shell(*line)[0] == 0 for line in (usual, strict)] == [True, False]


def test_program_starts_where_python_is_too_old():
    """To say so: what it then loads needs Python 3.8."""
    assert ast.parse(Path(program.__file__).read_text(), feature_version=(3, 6)).body


def test_serial_number_of_the_machine_counts_more_than_its_name(
    compiled: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own = {**signed(compiled.place, "n1"), "machine_serial": "A7"}
    (tmp_path / "bundle").write_text(compiled.sign(json.dumps(own)))
    (tmp_path / "signers").write_text(f"ops {compiled.key.with_suffix('.pub').read_text()}")
    (tmp_path / "serial").write_text("A7\n")
    monkeypatch.setattr(program, "SERIAL", str(tmp_path / "serial"))
    given = program.parse(["apply", f"{tmp_path}/bundle", "--signers", f"{tmp_path}/signers"])
    assert program.open_bundle(given)["node"] == "n1"
    (tmp_path / "serial").write_text("A8\n")
    with pytest.raises(program.NotTaken, match="it is for A7, and this is A8"):
        program.open_bundle(given)


@pytest.mark.parametrize(("one", "other", "same"), cases(__file__, "names"))
def test_name_of_a_node_may_lack_its_domain(one: str, other: str, same: bool):
    assert program.is_same_name(one, other) is same


def signed(place: Path, name: str, out: str = "out") -> dict[str, Any]:
    return content((place / out / f"{name}.bundle").read_text())


def test_bundle_has_what_its_node_needs_and_no_other_secret(compiled: Compiled):
    texts = {name: json.dumps(signed(compiled.place, name)) for name in ("n1", "n2")}
    assert set(signed(compiled.place, "n1")["arguments"]) == {"mlx5", "limits"}
    assert ("only-of-n2" in texts["n1"], "only-of-n2" in texts["n2"]) == (False, True)
    assert "hunter22" not in "".join(texts.values()), "no role needs it"
    modes = {path.name: path.stat().st_mode & 0o777 for path in (compiled.place / "out").iterdir()}
    assert modes == {"n1.bundle": 0o600, "n2.bundle": 0o600, "rdmaprov-node": 0o755}


def test_same_site_makes_the_same_bundles_and_another_one_newer_ones(tmp_path: Path):
    made = Compiled(tmp_path)
    assert made.compile() == (0, "out: 2 bundles, 2 new or changed\n")
    first = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert made.compile() == (0, "out: 2 bundles, 0 new or changed\n")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == first
    late = {**signed(tmp_path, "n2"), "number": 1 << 40}  # by a clock that was ahead
    (tmp_path / "out/n2.bundle").write_text(made.sign(json.dumps(late)))
    numbers = [late["number"]]
    for value in ("2", "1"):  # back to the site before, which is newer all the same
        write(tmp_path / "site", {"group_vars/nodes.yml": VARIABLES.replace("1}", value + "}")})
        assert made.compile() == (0, "out: 2 bundles, 2 new or changed\n")
        numbers.append(signed(tmp_path, "n1")["number"])
    assert sorted({*numbers}) == numbers


@pytest.mark.parametrize(
    ("line", "words", "code", "says"),
    [
        ("", ["--key", "site/hosts.yml"], ExitCode.USAGE, "cannot sign with this key"),
        ("", ["--key", "nowhere"], ExitCode.USAGE, "'nowhere' does not exist"),
        ("", ["--roles", "nowhere"], ExitCode.USAGE, "there is no role nowhere"),
        ("fabric_mtu_byte: 1", [], ExitCode.INVALID_SITE, "fabric_mtu_byte"),
        (
            "limits_memlock: '{{ ansible_facts.x | default(unlimited) }}'",
            [],
            ExitCode.FAILED,
            "n1: limits: only Ansible knows ansible_facts",
        ),
    ],
)
def test_wrong_input_writes_nothing(
    tmp_path: Path, line: str, words: list[str], code: ExitCode, says: str
):
    made = Compiled(tmp_path)
    write(tmp_path / "site", {"host_vars/n1.yml": f"---\n{line}\n"})
    ended, said = made.compile("new", *words)
    assert (ended, says in said) == (code, True), said
    assert "Traceback" not in said
    assert not (tmp_path / "new").exists()
