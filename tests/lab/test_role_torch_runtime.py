"""The torch that a lab node has: proven once, and refused where the site wants another."""

from __future__ import annotations

import base64
import ensurepip
from pathlib import Path

import pytest
from tests.roles.torch_wheels import wheel

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
PROOF = "/var/lib/rdmaprov/torch_runtime.json"


def test_node_without_a_route_takes_torch_from_its_wheelhouse(lab, play, tmp_path):
    """Its Python has no pip, and no repository is reached; the wheelhouse has pip's wheel."""
    wheel(tmp_path, "2.13.0")
    (bundled,) = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
    for file in (*tmp_path.glob("*.whl"), bundled):
        text = base64.b64encode(file.read_bytes()).decode()
        lab.run(
            NODE, f"mkdir -p /srv/wheels && base64 -d > /srv/wheels/{file.name} <<'E'\n{text}\nE"
        )
    lab.run(NODE, "ip route del default; ! ip route show default | grep .")
    own = {"torch_runtime_kind": "venv", "torch_runtime_python": "/usr/bin/python3"}
    assert play.run(own | {"torch_runtime_index_url": "https://192.0.2.1/simple"}).returncode != 0
    assert "the node's package indexes cannot be read" in " ".join(play.said.split())
    own |= {"torch_runtime_wheelhouse": "/srv/wheels"}
    assert play.changes(own)
    assert "2.13.0" in lab.run(NODE, f"cat {PROOF}")
    assert not play.changes(own)
