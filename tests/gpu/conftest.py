"""Ranks of each backend: NCCL's need a GPU and are run by `make gpu`, gloo's need torch alone."""

from __future__ import annotations

import re

import pytest
from tests.gpu.machine import missing_gpu
from tests.gpu.ranks import PYTHON, Ranks, python_with_torch


@pytest.fixture(params=["gloo", pytest.param("nccl", marks=pytest.mark.gpu)])
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
    """Return what runs ranks of the backend."""
    return Ranks(backend, re.sub(r"\W+", "-", request.node.name).strip("-"))
