"""What the acceptance runs with: pins, an interpreter, an environment, an image."""

from __future__ import annotations

import ensurepip
import hashlib
import json
import os
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, Machine, NodeError
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import torch_runtime
from plugins.module_utils.torch import proof, virtualenv
from tests.roles.fake import FakeMachine
from tests.roles.torch_node import IMAGE, arguments


class Real(Machine):
    """The machine itself, counting the programs that it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[list[str]] = []

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 600) -> str:
        self.ran.append(argv)
        return super().run(argv, stdin, timeout_s)

    @property
    def imports(self) -> int:
        """Return how often torch was imported."""
        return len([argv for argv in self.ran if "import torch" in argv[-1]])


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Real:
    monkeypatch.setattr(proof, "PROOF", str(tmp_path / "proof.json"))
    return Real()


def wheel(directory: Path, version: str, name: str = "torch", **files: str) -> None:
    """Make a wheel with a torch that does nothing."""
    directory.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    modules = {
        "torch/__init__.py": f"__version__ = {version!r}\n",
        "torch/distributed.py": "def is_available():\n    return True\n",
    }
    members = {
        **(modules if name == "torch" else {f"{name}.py": ""}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **files,
    }
    record = "".join(f"{member},,\n" for member in [*members, f"{info}/RECORD"])
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for member, text in {**members, f"{info}/RECORD": record}.items():
            archive.writestr(member, text)


@pytest.fixture
def quick(real: Real, monkeypatch: pytest.MonkeyPatch) -> Real:
    """Have wheels unpacked in place of pip, which costs seconds."""

    def install(
        _: Machine, place: str, python: str, wanted: list[Any], source: Any, pip: str
    ) -> None:
        venv.create(place, with_pip=False)
        purelib = sysconfig.get_path("purelib", "venv", {"base": place})
        for pin in wanted:
            path = Path(source.wheelhouse, f"{pin.name}-{pin.version}-py3-none-any.whl")
            if not path.exists():
                raise NodeError(f"there is no {pin.line}")
            with zipfile.ZipFile(path) as archive:
                archive.extractall(purelib)
        assert (python, pip) == (sys.executable, "")

    monkeypatch.setattr(virtualenv, "_install", install)
    return real


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide an interpreter with a torch."""
    directory = tmp_path_factory.mktemp("python")
    venv.create(directory, with_pip=False)
    wheel(directory, "2.13.0+cpu")
    purelib = sysconfig.get_path("purelib", "venv", {"base": str(directory)})
    with zipfile.ZipFile(next(directory.glob("*.whl"))) as archive:
        archive.extractall(purelib)
    return directory / "bin" / "python3"


def in_place(interpreter: Path, **changed: object) -> dict[str, Any]:
    return arguments(kind="interpreter", python=str(interpreter), **changed)


def test_interpreter_is_proven_by_an_import_once(real: Real, interpreter: Path):
    result = converge(real, torch_runtime, in_place(interpreter), check=False)
    assert [(each["seen"], each["wanted"]) for each in result["changes"]] == [
        ("2.13.0+cpu, not verified", "imported")
    ]
    assert real.imports == 1
    real.ran.clear()
    assert not converge(real, torch_runtime, in_place(interpreter), check=False)["changed"]
    assert real.ran == []  # nothing at all is started on a node that is right


def test_check_mode_imports_nothing(real: Real, interpreter: Path):
    assert converge(real, torch_runtime, in_place(interpreter), check=True)["changed"]
    assert real.imports == 0
    assert not Path(proof.PROOF).exists()


@pytest.mark.parametrize("lost", ["proof", "damaged", "package", "other pins"])
def test_proof_counts_only_for_what_was_proven(real: Real, interpreter: Path, lost: str):
    given = in_place(interpreter)
    converge(real, torch_runtime, given, check=False)
    kept = Path(proof.PROOF)
    if lost == "proof":
        kept.unlink()
    elif lost == "damaged":
        kept.write_text("{")
    elif lost == "package":
        files = json.loads(kept.read_text())["files"]
        record = next(path for path in files if path.endswith("RECORD"))
        os.utime(record, (1, 1))
    else:
        given = in_place(interpreter, requirements=[])
        assert not converge(real, torch_runtime, given, check=True)["changed"]
        return
    result = converge(real, torch_runtime, given, check=False)
    assert result["changed"]
    assert real.imports == 2


def test_other_version_of_an_interpreter_is_refused(real: Real, interpreter: Path):
    given = in_place(interpreter, requirements=["torch==2.12.0", "numpy==2.0"])
    with pytest.raises(
        Refused,
        match=r"numpy is absent, expected 2\.0; torch is 2\.13\.0\+cpu, expected 2\.12\.0 .*write",
    ):
        converge(real, torch_runtime, given, check=False)


def test_interpreter_without_torch_is_refused(real: Real, tmp_path: Path):
    venv.create(tmp_path / "bare", with_pip=False)
    with pytest.raises(Refused, match="torch is absent, expected any"):
        converge(
            real,
            torch_runtime,
            in_place(tmp_path / "bare/bin/python3", requirements=[]),
            check=True,
        )
    with pytest.raises(Refused, match="torch_runtime_python: there is no /nowhere"):
        converge(real, torch_runtime, in_place(Path("/nowhere")), check=True)


def test_torch_that_does_not_import_is_an_error_in_one_line(real: Real, tmp_path: Path):
    venv.create(tmp_path / "broken", with_pip=False)
    wheel(tmp_path, "2.13.0", **{"torch/distributed.py": "raise ImportError('no libc10.so')\n"})
    purelib = sysconfig.get_path("purelib", "venv", {"base": str(tmp_path / "broken")})
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        archive.extractall(purelib)
    with pytest.raises(NodeError, match=r"bin/python3: ImportError: no libc10.so \(exit code 1\)$"):
        converge(real, torch_runtime, in_place(tmp_path / "broken/bin/python3"), check=False)
    assert not Path(proof.PROOF).exists()


def test_environment_is_built_once_from_a_wheelhouse(real: Real, tmp_path: Path):
    wheel(tmp_path / "wheels", "2.13.0")
    digest = hashlib.sha256(next((tmp_path / "wheels").iterdir()).read_bytes()).hexdigest()
    line = f"torch==2.13.0 --hash=sha256:{digest}"
    given = environment(tmp_path, requirements=[line])
    result = converge(real, torch_runtime, given, check=False)
    assert [(each["layer"], each["setting"]) for each in result["changes"]] == [
        ("configured", "packages")
    ]
    directory = tmp_path / "torch"
    assert directory.is_symlink()
    assert not (tmp_path / "torch.a").exists()
    assert real.imports == 1
    assert not (directory / "requirements.txt").exists()
    real.ran.clear()
    assert not converge(real, torch_runtime, given, check=False)["changed"]
    assert real.ran == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("torch==2.14.0", "could not find a version .* torch==2.14.0 .from versions: 2.13.0.$"),
        (f"torch==2.13.0 --hash=sha256:{'a' * 64}", "THESE PACKAGES DO NOT MATCH THE HASHES"),
    ],
)
def test_pip_of_the_wheelhouse_refuses_what_is_not_there(
    real: Real, tmp_path: Path, line: str, message: str
):
    wheel(tmp_path / "wheels", "2.13.0")
    # Debian keeps the wheels of ensurepip in a directory of their own.
    places = (Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels"))
    bundled = next(wheel for place in places for wheel in place.glob("pip-*.whl"))
    (tmp_path / "wheels" / bundled.name).symlink_to(bundled)
    with pytest.raises(NodeError, match=rf"torch.b: pip: (?i:{message})"):
        converge(real, torch_runtime, environment(tmp_path, requirements=[line]), check=False)
    assert not list(tmp_path.glob("torch*"))


def environment(tmp_path: Path, **changed: object) -> dict[str, Any]:
    given = {"directory": str(tmp_path / "torch"), "wheelhouse": str(tmp_path / "wheels")}
    return arguments(**{**given, **changed})


def test_environment_with_other_versions_is_replaced_whole(quick: Real, tmp_path: Path):
    wheel(tmp_path / "wheels", "2.12.0")
    wheel(tmp_path / "wheels", "2.13.0")
    old = environment(tmp_path, requirements=["torch==2.12.0"])
    converge(quick, torch_runtime, old, check=False)
    seen = converge(quick, torch_runtime, environment(tmp_path), check=False)["changes"][0]
    assert (seen["seen"], seen["wanted"]) == (
        "torch is 2.12.0, expected 2.13.0",
        "torch==2.13.0",
    )
    places = sorted(path.name for path in tmp_path.glob("torch.?"))
    assert places == [(tmp_path / "torch").readlink().name]
    assert not converge(quick, torch_runtime, environment(tmp_path), check=False)["changed"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda _: None, "there is no torch==2.14.0"),
        (
            lambda tmp_path: wheel(
                tmp_path / "wheels", "2.14.0", **{"torch/__init__.py": "import nothing\n"}
            ),
            "No module named 'nothing'",
        ),
        (
            lambda tmp_path: wheel(
                tmp_path / "wheels", "2.14.0", **{"torch/__init__.py": "__version__ = '2.0'\n"}
            ),
            "torch imports as 2.0, installed is 2.14.0",
        ),
    ],
)
def test_environment_that_cannot_be_built_leaves_the_old_one(
    quick: Real, tmp_path: Path, broken: Callable[[Path], None], message: str
):
    wheel(tmp_path / "wheels", "2.13.0")
    converge(quick, torch_runtime, environment(tmp_path), check=False)
    used = (tmp_path / "torch").readlink()
    broken(tmp_path)
    newer = environment(tmp_path, requirements=["torch==2.14.0"])
    with pytest.raises(NodeError, match=message):
        converge(quick, torch_runtime, newer, check=False)
    assert (tmp_path / "torch").readlink() == used
    assert [path.name for path in tmp_path.glob("torch.?")] == [used.name]
    assert not converge(quick, torch_runtime, environment(tmp_path), check=False)["changed"]


@pytest.mark.parametrize("cut", ["partial", "not linked", "not remembered"])
def test_run_that_was_killed_is_repaired(
    quick: Real, tmp_path: Path, cut: str, monkeypatch: pytest.MonkeyPatch
):
    wheel(tmp_path / "wheels", "2.13.0")
    if cut == "partial":
        (tmp_path / "torch.b/bin").mkdir(parents=True)
        (tmp_path / "torch.new").symlink_to("torch.a")
    else:
        name = "_link" if cut == "not linked" else "proof.remember"
        with monkeypatch.context() as patch:
            patch.setattr(f"plugins.module_utils.torch.virtualenv.{name}", killed)
            with pytest.raises(RuntimeError):
                converge(quick, torch_runtime, environment(tmp_path), check=False)
    assert converge(quick, torch_runtime, environment(tmp_path), check=False)["changed"]
    assert not converge(quick, torch_runtime, environment(tmp_path), check=False)["changed"]
    assert (tmp_path / "torch/bin/python3").exists()


def killed(*_: object) -> None:
    raise RuntimeError("killed")


def test_index_is_not_on_a_command_line(
    real: Real, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    url = "http://someone:secret@127.0.0.1:9/simple"
    given = environment(tmp_path, wheelhouse="", index_url=url)
    command = CommandFailed(["pip"], 1, "ERROR: stopped")
    kept: list[str] = []

    def run(argv: list[str], **_: object) -> str:
        if "install" in argv:
            kept.append(Path(argv[-1]).read_text())
            assert Path(argv[-1]).stat().st_mode & 0o777 == 0o600
            assert "secret" not in " ".join(argv)
            raise command
        return ""

    monkeypatch.setattr(real, "run", run)
    with pytest.raises(NodeError, match=r"pip: stopped$"):
        converge(real, torch_runtime, given, check=False)
    assert kept == [f"--index-url {url}\ntorch==2.13.0\n"]


def test_directory_of_somebody_else_is_left_alone(real: Real, tmp_path: Path):
    (tmp_path / "torch").mkdir()
    with pytest.raises(Refused, match="exists, but rdmaprov did not create it"):
        converge(real, torch_runtime, environment(tmp_path, wheelhouse=""), check=False)


def test_python_without_pip_is_refused_unless_the_wheelhouse_has_it(tmp_path: Path):
    node = FakeMachine(tmp_path)
    node.put("/usr/bin/python3")
    lacking = CommandFailed(["python3"], 1, "Traceback\nNo module named 'ensurepip'")
    node.programs = {"/usr/bin/python3 -I -c import venv": lacking}
    given = arguments(python="/usr/bin/python3")
    with pytest.raises(
        Refused, match=r"No module named 'ensurepip'\); run on the node: apt-get install"
    ):
        converge(node, torch_runtime, given, check=True)
    node.put("/srv/wheels/pip-25.0-py3-none-any.whl")
    given["wheelhouse"] = "/srv/wheels"
    assert converge(node, torch_runtime, given, check=True)["changed"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"directory": "opt/torch"}, "torch_runtime_directory: 'opt/torch' is not an absolute"),
        ({"python": "python3"}, "torch_runtime_python: 'python3' is not an absolute path"),
        ({"requirements": ["numpy==2.0"]}, "torch is not among them"),
        (
            {"index_url": "http://x", "wheelhouse": "/w"},
            "torch_runtime_index_url is set too; remove one of them",
        ),
        ({"index_url": "http://x\n--pre"}, "there is a blank in it"),
        ({"wheelhouse": "/nowhere"}, "torch_runtime_wheelhouse: there is no /nowhere"),
        ({"kind": "container", "image": "torch"}, "'torch' is not pinned"),
        ({"kind": "container", "image": "torch:latest"}, "'torch:latest' is not pinned"),
        ({"kind": "container", "image": "--help:x"}, "is not pinned"),
        ({"kind": "container", "image": IMAGE}, "podman is not installed"),
        (
            {"kind": "container", "image": IMAGE, "container_tool": "enroot"},
            "does not pull images for enroot",
        ),
    ],
)
def test_wrong_value_is_refused(machine: FakeMachine, given: dict[str, Any], message: str):
    machine.put(sys.executable)
    with pytest.raises(Refused, match=message):
        converge(machine, torch_runtime, arguments(**given), check=False)
    assert machine.ran == []


def test_nothing_is_managed_where_the_site_says_none(machine: FakeMachine):
    assert not converge(machine, torch_runtime, arguments(kind="none"), check=False)["changed"]
