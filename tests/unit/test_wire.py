"""The commands of an exchange, in a shell."""

from __future__ import annotations

import subprocess

import pytest

from rdmaprov.facts import wire


def said(command: str) -> str:
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_client_tries_until_the_server_listens(tmp_path):
    third = f"sh -c 'echo try >>{tmp_path}/tries; test $(wc -l <{tmp_path}/tries) = 3'"
    assert said(wire.client_command(third)).startswith("rc 0\n")


@pytest.mark.parametrize(("program", "tries"), [("false", True), ("no-such-program", False)])
def test_client_ends_when_no_server_can_listen_any_more(monkeypatch, tmp_path, program, tries):
    monkeypatch.setattr(wire, "SERVER_S", 1)
    client = wire.client_command(f"sh -c 'echo try >>{tmp_path}/tries; {program}'")
    assert said(client).startswith("rc 1\n" if tries else "rc 127\n")
    assert (len((tmp_path / "tries").read_text().split()) > 1) is tries
