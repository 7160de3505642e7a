"""Images of container/, made for real on a Debian base: their verbs ask a node behind sshd.

No registry of images is asked, so the base is of mmdebstrap; the node is this machine, and is only
read. Isolation is chroot, without a daemon, and the network is this machine's.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_over_ssh import CHECK, VARIABLES, WANTED
from tests.tables import cases
from tests.unit.helpers.bastion import SETTINGS
from tests.unit.helpers.shell import execute
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.ssh_node import SSHD, Sshd
from tests.unit.helpers.waiting import until

import rdmaprov
from rdmaprov.exit_codes import ExitCode
from rdmaprov.lab.model import DEFAULT_SUITE

ROOT = Path(__file__).parents[2]
TOOLS = ("buildah", "mmdebstrap")
BASE = ("python3", "python3-pip", "python3-venv", "ca-certificates")
# How this machine reaches packages.
ACCESS = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")
# As ansible-builder's arguments: what docs/containers.md has for a base of Debian's.
DEBIAN = {
    "EE_BASE_IMAGE": "base", "PKGMGR": "/usr/bin/apt-get", "PYCMD": "/usr/bin/python3",
    "PYPKG": "python3 python3-pip",
}  # fmt: skip
TIMEOUT_S = 1800  # one image; a minute where this machine has nothing else to do

pytestmark = [pytest.mark.long, pytest.mark.skipif(os.geteuid() != 0, reason="a survey needs root")]
JOB = cases(__file__, "job")


class Images:
    def __init__(self, place: Path) -> None:
        self.place = place

    def __call__(self, verb: str, *words: object) -> subprocess.CompletedProcess[str]:
        store = ["--storage-driver=vfs", f"--root={self.place}/root", f"--runroot={self.place}/run"]
        return execute(
            ["buildah", *store, verb, *map(str, words)],
            env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
            timeout=TIMEOUT_S,
        )

    def make(self, name: str, context: Path, *words: str) -> None:
        mounts = [f"--volume={each}:{each}:ro" for each in ACCESS if Path(each).exists()]
        done = self("bud", "--tag", name, *mounts, *words, context)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

    def start(self, name: str) -> str:
        """Return the name, of an image that has a container; a copy of all its files takes long."""
        done = self("from", "--name", f"{name}-container", name)
        assert done.returncode == 0, done.stderr
        return name


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Provide buildah with a base of Debian's and a context of container/ with a wheel."""
    assert [each for each in TOOLS if shutil.which(each) is None] == [], "run: make test-tools"
    place = tmp_path_factory.mktemp("images")
    made = Images(place)
    (place / "base").mkdir()
    command = ["mmdebstrap", "--quiet", "--variant=minbase", "--skip=cleanup/apt/lists"]
    command += ["--dpkgopt=force-unsafe-io", f"--include={','.join(BASE)}"]
    command += [DEFAULT_SUITE, f"{place}/base/tree.tar"]
    subprocess.run(command, check=True, timeout=TIMEOUT_S)
    (place / "base/Containerfile").write_text("FROM scratch\nADD tree.tar /\n")
    made.make("base", place / "base")
    shutil.copytree(ROOT / "container", place / "it", ignore=shutil.ignore_patterns("dist"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", f"{place}/it/dist"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    yield made
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def ee(images):
    context = images.place / "context"
    command = [sys.executable, "-m", "ansible_builder", "create", "--context", str(context)]
    command += ["--file", f"{images.place}/it/execution-environment.yml"]
    subprocess.run([*command, "--output-filename=Containerfile"], check=True)
    images.make("ee", context, *(f"--build-arg={name}={to}" for name, to in DEBIAN.items()))
    return images.start("ee")


@pytest.fixture(scope="module")
def program(images):
    images.make("rdmaprov", images.place / "it", "--build-arg=BASE=base")
    return images.start("rdmaprov")


@pytest.fixture
def place(tmp_path):
    """Provide a directory with a site of one node, its sshd, and what group 0 may write."""
    keys = tmp_path / "keys"
    keys.mkdir()
    Sshd(keys)
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    (tmp_path / "sshd.conf").write_text(SETTINGS.format(port=port, at=keys, more=""))
    for name in ("host_key", "other_host_key"):
        known = f"[127.0.0.1]:{port} " + (keys / f"{name}.pub").read_text()
        (tmp_path / f"known_by_{name}").write_text(known)
    (keys / "key").chmod(0o640)  # as a secret of Kubernetes: root's, and the group may read it
    variables = {"ansible_host": "127.0.0.1", "ansible_port": port, "ansible_user": "root"}
    variables["ansible_python_interpreter"] = sys.executable
    hosts = {"nodes": {"hosts": {"n1": {"unit": 1}}, "vars": variables}}
    files = {"hosts.yml": "---\n" + json.dumps(hosts), "group_vars/nodes.yml": VARIABLES}
    write(tmp_path / "project/site", {**GOOD, **files})
    write(tmp_path / "project", {"test_own.py": CHECK, "job.yml": JOB})
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(0o770)
    sshd = [SSHD or "sshd", "-D", "-e", "-f", str(tmp_path / "sshd.conf")]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(sshd, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    assert until(lambda: "Server listening" in (tmp_path / "log").read_text())
    yield tmp_path
    process.terminate()
    process.wait()


def run(images, image, place, *words, options=(), known="host_key", key=True):
    """Return how a command ends in the container of an image, as docs/containers.md starts it."""
    mounts = [f"{place}/project:/work:ro", f"{place}/runs:/runs"]
    mounts += [f"{place}/known_by_{known}:/etc/ssh/ssh_known_hosts:ro"]
    given = ["--env=RDMAPROV_RUNS=/runs/own", "--workingdir=/work"]
    # Without a PID namespace, a connection that is kept would outlive the container.
    given += ["--env=ANSIBLE_SSH_ARGS=-o ControlMaster=no"]
    if key:
        mounts += [f"{place}/keys/key:/run/secrets/key:ro"]
        given += ["--env=ANSIBLE_PRIVATE_KEY_FILE=/run/secrets/key"]
    given += [f"--volume={each}" for each in mounts]
    done = images("run", *given, *options, f"{image}-container", "--", *words)
    return done.returncode, done.stdout + done.stderr


def results(place, verb):
    (path,) = place.glob(f"runs/own/*-{verb}/results.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize("kind", ["ee", "program"])
def test_verbs_ask_a_node(images, place, kind, request):
    """As the image's own user, who is not root, in a directory that is not writable."""
    image = request.getfixturevalue(kind)
    assert run(images, image, place, "rdmaprov", "--version") == (
        ExitCode.OK,
        f"rdmaprov, version {rdmaprov.__version__}\n",
    )
    assert run(images, image, place, "stat", "-c", "%a", "/etc/passwd") == (0, "644\n")
    code, said = run(images, image, place, "rdmaprov", "check", "site")
    assert (code, said) == (ExitCode.OK, "site: 1 node, 0 problems\n")
    code, said = run(images, image, place, "rdmaprov", "plan", "site", "--roles", "limits")
    assert code == ExitCode.PENDING, said
    before = Path("/proc/sys/net/core/somaxconn").read_text().strip()
    assert f"n1: kernel net.core.somaxconn {before} → {WANTED} (running)" in said
    code, said = run(images, image, place, "rdmaprov", "validate", "site", "test_own.py")
    assert code == ExitCode.OK, said
    assert results(place, "plan")["nodes"]["n1"]["state"] == "pending"
    assert results(place, "validate")["counts"]["passed"] == 1
    assert next(place.glob("runs/own/*-validate")).stat().st_uid == 1000


def test_a_uid_without_a_name_is_refused_by_ssh_and_one_with_a_name_is_not(images, program, place):
    """Podman and CRI-O write the entry."""
    words = ("rdmaprov", "validate", "site", "test_own.py")
    code, said = run(images, program, place, *words, options=["--user=1234:0"])
    assert code == ExitCode.UNKNOWN, said
    assert "ssh: the user that runs rdmaprov has no entry in /etc/passwd here" in said
    shutil.rmtree(place / "runs/own")
    (place / "passwd").write_text("root:x:0:0::/root:/bin/sh\nany:x:1234:0::/work:/bin/sh\n")
    options = ["--user=1234:0", f"--volume={place}/passwd:/etc/passwd:ro"]
    code, said = run(images, program, place, *words, options=options)
    assert code == ExitCode.OK, said
    assert results(place, "validate")["nodes"]["n1"]["state"] == "passed"


def job(images, ee, place, *options, known="host_key"):
    """Return how a job ends as AWX starts it, with the key in an agent of ansible-runner's."""
    private = place / "private"
    if not private.exists():
        shutil.copytree(place / "project", private / "project")
        write(private, {"env/ssh_key": (place / "keys/key").read_text()})
        write(private, {"env/cmdline": '-e \'{"apply_roles": ["limits"]}\''})
        subprocess.run(["chown", "-R", "1000:0", private], check=True)
    given = [*options, f"--volume={private}:/runner"]
    words = ["ansible-runner", "run", "/runner", "-p", "job.yml"]
    words += ["--inventory", "/runner/project/site/hosts.yml"]
    return run(images, ee, place, *words, options=given, known=known, key=False)


def test_job_of_ansible_runner_runs_verbs_and_the_collection_s_playbooks(images, ee, place):
    code, said = job(images, ee, place)
    assert code == 0, said
    assert "changed: [localhost]" in said
    assert "n1 " in said[said.index("PLAY RECAP") :]
    assert results(place, "plan")["nodes"]["n1"]["state"] == "pending"
    assert results(place, "validate")["nodes"]["n1"]["state"] == "passed"


def test_job_checks_host_keys_where_it_is_told_to(images, ee, place):
    """ansible-runner turns it off for all that it starts."""
    checking = "--env=ANSIBLE_HOST_KEY_CHECKING=True"
    code, said = job(images, ee, place, checking, known="other_host_key")
    assert code == 2, said
    assert results(place, "plan")["nodes"]["n1"]["state"] == "unreachable"
