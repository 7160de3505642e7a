"""The environment with torch: built from a wheelhouse or an index, replaced whole, repaired."""

import ensurepip
import hashlib
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, Machine, NodeError
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import torch_runtime
from tests.roles.torch_node import PYTHON, TorchNode, arguments
from tests.roles.torch_wheels import Real, unpack, wheel


@pytest.fixture
def quick(real: Real, monkeypatch: pytest.MonkeyPatch) -> Real:
    def install(
        _: Machine, place: str, python: str, wanted: list[Any], source: Any, pip: str
    ) -> None:
        venv.create(place, with_pip=False)
        for pin in wanted:
            path = Path(source.wheelhouse, f"{pin.name}-{pin.version}-py3-none-any.whl")
            if not path.exists():
                raise NodeError(f"there is no {pin.line}")
            unpack(path, place)
        assert (python, pip) == (sys.executable, "")

    monkeypatch.setattr(torch_runtime, "_install", install)
    return real


@pytest.mark.program
def test_environment_is_built_once_from_a_wheelhouse(real: Real, tmp_path: Path):
    wheel(tmp_path / "wheels", "2.13.0")
    digest = hashlib.sha256(next((tmp_path / "wheels").iterdir()).read_bytes()).hexdigest()
    given = environment(tmp_path, requirements=[f"torch==2.13.0 --hash=sha256:{digest}"])
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


@pytest.mark.program
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("torch==2.14.0", "could not find a version .* torch==2.14.0 .from versions: 2.13.0.$"),
        (f"torch==2.13.0 --hash=sha256:{'a' * 64}", "THESE PACKAGES DO NOT MATCH THE HASHES"),
    ],
)
def test_pip_of_the_wheelhouse_refuses_what_is_not_there(real, tmp_path, line, message):
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
    assert (seen["seen"], seen["wanted"]) == ("torch is 2.12.0, expected 2.13.0", "torch==2.13.0")
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
def test_environment_that_cannot_be_built_leaves_the_old_one(quick, tmp_path, broken, message):
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
def test_run_that_was_killed_is_repaired(quick, tmp_path, cut, monkeypatch):
    wheel(tmp_path / "wheels", "2.13.0")
    if cut == "partial":
        (tmp_path / "torch.b/bin").mkdir(parents=True)
        (tmp_path / "torch.new").symlink_to("torch.a")
    else:
        name = "_link" if cut == "not linked" else "proof.remember"
        with monkeypatch.context() as patch:
            patch.setattr(f"plugins.module_utils.roles.torch_runtime.{name}", killed)
            with pytest.raises(RuntimeError):
                converge(quick, torch_runtime, environment(tmp_path), check=False)
    assert converge(quick, torch_runtime, environment(tmp_path), check=False)["changed"]
    assert not converge(quick, torch_runtime, environment(tmp_path), check=False)["changed"]
    assert (tmp_path / "torch/bin/python3").exists()


def killed(*_: object) -> None:
    raise RuntimeError("killed")


class NoRoute(Real):
    """The machine itself, with no network but what a new network namespace has: none."""

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 600) -> str:
        return super().run(["unshare", "--net", "--map-root-user", *argv], stdin, timeout_s)


@pytest.mark.program
@pytest.mark.usefixtures("real")
def test_node_without_a_route_builds_from_its_wheelhouse_alone(tmp_path, monkeypatch):
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "1")
    node = NoRoute()
    # 192.0.2.0/24 is nobody's (RFC 5737).
    for index, why in (
        ("https://192.0.2.1/simple", "no connection to the index: .*Network is unreachable.*house"),
        ("http://192.0.2.1/simple", "does not trust 192.0.2.1, which has no https.*trusted-host"),
        ("", "no connection to the index: .*name resolution.*torch_runtime_wheelhouse"),
    ):
        given = environment(tmp_path, wheelhouse="", index_url=index)
        with pytest.raises(NodeError, match=why):
            converge(node, torch_runtime, given, check=False)
    wheel(tmp_path / "wheels", "2.13.0")
    assert converge(node, torch_runtime, environment(tmp_path), check=False)["changed"]
    assert "2.13.0" in node.run(
        [str(tmp_path / "torch/bin/python3"), "-c", "import torch; print(torch.__version__)"]
    )
    assert not converge(node, torch_runtime, environment(tmp_path), check=False)["changed"]


LOST = (
    "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after "
    "connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection "
    "object at 0x7f>: Failed to establish a new connection: [Errno 101] Network is unreachable')': "
    "/simple/torch/\n"
)


def test_connection_that_pip_lost_comes_before_what_it_did_not_find():
    error = "ERROR: Could not find a version that satisfies the requirement torch==2.13.0"
    assert torch_runtime._reason(LOST + error).startswith(
        "no connection to the index: NewConnectionError('Failed to establish a new connection: "
        "[Errno 101] Network is unreachable'). "
    )
    assert torch_runtime._reason(error) == error.replace("ERROR: ", "")


class BareNode(TorchNode):
    """A node of Ubuntu whose Python has no ensurepip until its package is installed."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        Path(self.path(PYTHON)).unlink()
        self.put("/usr/bin/python3.10")
        self.link(PYTHON, "/usr/bin/python3.10")
        self.programs = {"apt-get": "", "dpkg-query": ""}

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 0) -> str:
        line = " ".join(argv)
        if "ensurepip" in line and not any("install python3.10-venv=" in each for each in self.ran):
            raise CommandFailed(argv, 1, "ModuleNotFoundError: No module named 'ensurepip'")
        if argv[0] == "apt-cache":
            return " python3.10-venv | 3.10.12-1~22.04.9 | http://mirror.example jammy/main\n"
        if "apt-get" in argv or argv[0] == "dpkg-query":
            self.ran.append(line)
            return ""
        return super().run(argv, stdin, timeout_s)


def test_package_that_makes_environments_is_installed_before_one_is_made(tmp_path: Path):
    node = BareNode(tmp_path)
    result = converge(node, torch_runtime, arguments(python=PYTHON), check=False)
    assert [each["device"] for each in result["changes"]] == [
        "python3.10-venv",
        "/opt/rdmaprov/torch",
    ]
    [venv_] = [n for n, line in enumerate(node.ran) if " -m venv " in line]
    assert any("install python3.10-venv=3.10.12-1~22.04.9" in line for line in node.ran[:venv_])
    assert not converge(node, torch_runtime, arguments(python=PYTHON), check=False)["changed"]


def test_python_of_its_own_without_ensurepip_is_refused(tmp_path: Path):
    node = BareNode(tmp_path)
    node.put("/opt/python/bin/python3")
    with pytest.raises(Refused, match="/opt/python/bin/python3 cannot create virtual environments"):
        converge(node, torch_runtime, arguments(python="/opt/python/bin/python3"), check=True)


def test_index_is_not_on_a_command_line(real, tmp_path, monkeypatch):
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
