"""Ranks of each backend: NCCL's need a GPU and are run by `make gpu`, gloo's need torch alone."""

import ctypes
import os
import re

import pytest
from tests.gpu.machine import missing_gpu
from tests.gpu.ranks import PYTHON, Ranks, python_with_torch
from tests.namespaces.nodes import lab_torch_disk, run

from rdmaprov.lab.build import TORCH_DIRECTORY

NEW_NETWORK = 0x40000000  # CLONE_NEWNET of linux/sched.h


def pytest_configure(config):
    """Give each worker of `make gpu` a network of its own: ranks and RAS have fixed ports."""
    if hasattr(config, "workerinput") and config.getoption("markexpr") == "gpu":
        assert ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK) == 0, "no network namespace"
        run("ip", "link", "set", "lo", "up")


@pytest.fixture(scope="session", autouse=True)
def torch_of_the_lab(tmp_path_factory):
    """Name a Python with the torch of the lab, which each process mounts, if none is known."""
    if os.geteuid() != 0 or python_with_torch():
        yield
        return
    disk = run("losetup", "--find", "--show", "--read-only", lab_torch_disk()).strip()
    python = tmp_path_factory.mktemp("torch") / "python3"
    mounts = f"mount -t tmpfs tmpfs /opt && mkdir -p {TORCH_DIRECTORY} && "
    mounts += f"mount -o ro {disk} {TORCH_DIRECTORY} && "
    python.write_text(
        f"#!/bin/sh\nexec unshare --mount sh -c '{mounts}"
        f'exec {TORCH_DIRECTORY}/bin/python3 "$@"\' sh "$@"\n'
    )
    python.chmod(0o755)
    os.environ[PYTHON] = str(python)
    python_with_torch.cache_clear()
    yield
    run("losetup", "--detach", disk)


@pytest.fixture(
    params=[
        pytest.param("gloo", marks=pytest.mark.long),
        pytest.param("nccl", marks=pytest.mark.gpu),
    ]
)
def backend(request) -> str:
    """Return a backend that can run here; NCCL was asked for by name, so it does not skip."""
    if request.param == "nccl" and (why := missing_gpu()):
        pytest.fail(why, pytrace=False)
    if not python_with_torch():
        why = f"needs torch: name an interpreter that has it in {PYTHON}, or run: make gpu"
        (pytest.fail if request.param == "nccl" else pytest.skip)(why)
    return str(request.param)


@pytest.fixture
def ranks(backend, request) -> Ranks:
    return Ranks(backend, re.sub(r"\W+", "-", request.node.name).strip("-"))
