"""What the acceptance runs with: an interpreter of the site's own, and what is refused."""

import json
import os
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import torch_runtime
from plugins.module_utils.torch import proof
from tests.roles.fake import FakeMachine
from tests.roles.torch_node import IMAGE, arguments
from tests.roles.torch_wheels import Real, unpack, wheel


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("python")
    venv.create(directory, with_pip=False)
    wheel(directory, "2.13.0+cpu")
    unpack(next(directory.glob("*.whl")), directory)
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
        os.utime(next(path for path in files if path.endswith("RECORD")), (1, 1))
    else:
        given = in_place(interpreter, requirements=[])
        assert not converge(real, torch_runtime, given, check=True)["changed"]
        return
    assert converge(real, torch_runtime, given, check=False)["changed"]
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


def test_python_without_pip_is_refused_unless_the_wheelhouse_has_it(tmp_path: Path):
    node = FakeMachine(tmp_path)
    node.put("/usr/bin/python3")
    lacking = CommandFailed(["python3"], 1, "Traceback\nNo module named 'ensurepip'")
    node.programs = {"/usr/bin/python3 -I -c import venv": lacking}
    given = arguments(python="/usr/bin/python3")
    with pytest.raises(Refused, match=r"No module named 'ensurepip'\); install its ensurepip"):
        converge(node, torch_runtime, given, check=True)
    node.put("/srv/wheels/pip-25.0-py3-none-any.whl")
    given["wheelhouse"] = "/srv/wheels"
    assert converge(node, torch_runtime, given, check=True)["changed"]


def test_nothing_is_managed_where_the_site_says_none(machine: FakeMachine):
    assert not converge(machine, torch_runtime, arguments(kind="none"), check=False)["changed"]


@pytest.mark.parametrize(
    ("tool", "absent"),
    [
        ("podman", "Error: inspecting object: registry.example.com/torch: image not known"),
        ("docker", "Error response from daemon: No such image: registry.example.com/torch"),
    ],
)
def test_image_is_pulled_once(machine: FakeMachine, tool: str, absent: str):
    inspect = f"{tool} image inspect"

    def pull(argv: list[str]) -> str:
        machine.programs[inspect] = "sha256:1"
        return argv[-1]

    machine.programs = {inspect: CommandFailed([tool], 1, absent), f"{tool} pull": pull}
    given = arguments(kind="container", image=IMAGE, container_tool=tool)
    assert converge(machine, torch_runtime, given, check=True)["changed"]
    assert not [line for line in machine.ran if "pull" in line]
    assert converge(machine, torch_runtime, given, check=False)["changed"]
    assert f"{tool} pull --quiet {IMAGE}" in machine.ran
    assert not converge(machine, torch_runtime, given, check=False)["changed"]


def test_daemon_that_does_not_answer_is_an_error(machine: FakeMachine):
    down = CommandFailed(["docker"], 1, "Cannot connect to the Docker daemon")
    machine.programs = {"docker image inspect": down}
    with pytest.raises(CommandFailed, match="Cannot connect"):
        converge(
            machine,
            torch_runtime,
            arguments(kind="container", image=IMAGE, container_tool="docker"),
            check=True,
        )
    assert torch_runtime.PULL_TIMEOUT_S > 600
