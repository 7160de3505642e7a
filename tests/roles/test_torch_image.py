"""A container image with torch: pulled once, by its digest."""

from __future__ import annotations

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed
from plugins.module_utils.roles import torch_runtime
from tests.roles.fake import FakeMachine
from tests.roles.torch_node import IMAGE, arguments


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
