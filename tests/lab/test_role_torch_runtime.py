"""The torch that a lab node has: proven once, and refused where the site wants another."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
PROOF = "/var/lib/rdmaprov/torch_runtime.json"


def test_interpreter_is_proven_once(lab, play):
    assert play.changes({})
    assert '"torch": "2.13.0+cpu"' in lab.run(NODE, f"cat {PROOF}")
    assert not play.changes({})


def test_other_version_is_refused(play):
    assert play.run({"torch_runtime_requirements": ["torch==2.12.0"]}).returncode != 0
    assert "torch is 2.13.0+cpu, expected 2.12.0 (torch_runtime_requirements)" in play.said
