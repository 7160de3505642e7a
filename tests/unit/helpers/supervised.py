"""Scripts that supervisors run on this machine, with and without a stand-in for systemd."""

import base64
import json
import os
import secrets
from contextlib import contextmanager
from pathlib import Path

from tests.unit.helpers import systemd_standin
from tests.unit.helpers.local_node import local_probe
from tests.unit.helpers.waiting import until

from rdmaprov.acceptance.ask import nodes as nodes_module
from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import ask_nodes, program_command
from rdmaprov.marked import marked_processes


def marked(mark):
    return marked_processes(f"RDMAPROV_ACCEPTANCE={mark}")


def alter(monkeypatch, old, new):
    original = vars(nodes_module)["node_script"]

    def script(program):
        source = original(program)
        assert program.stem != "supervisor" or old.encode() in source
        return source.replace(old.encode(), new.encode())

    monkeypatch.setattr(nodes_module, "node_script", script)


def use_systemd(monkeypatch, tmp_path, version=252):
    """Have nodes run the stand-in for systemd; return the folder with its units."""
    place = tmp_path / "systemd"
    programs = systemd_standin.install(place, version)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    alter(monkeypatch, "/run/systemd/system", str(place))
    alter(monkeypatch, "os.geteuid() == 0", "True")
    return place / "units"


def supervised_units(keeper, monkeypatch, tmp_path):
    # A keeper whose program has ended looks once a second whether it is dismissed.
    alter(monkeypatch, "TICK_S if rc is None else 1", "0.05")
    if keeper == "units":
        return use_systemd(monkeypatch, tmp_path)
    alter(monkeypatch, "/run/systemd/system", "/nonexistent")
    return tmp_path / "none"


@contextmanager
def two_nodes(units):
    """Have two nodes that are this machine; no unit is left at the end."""
    with local_probe("n0", "n1") as probe:
        yield probe
    assert until(lambda: not list(units.glob("*")))


class Kept:
    def __init__(
        self,
        nodes,
        script,
        lease_s=60.0,
        limit_s=60.0,
        environment=None,
        files=None,
        start_s=60,
        **more,
    ):
        self.mark = f"rdmaprov-accept-test-{secrets.token_hex(4)}"
        self.nodes = nodes
        request = {
            "verb": "start",
            "argv": ["/bin/sh", "{directory}/script"],
            "environment": {"WHERE": "{directory}/x", **(environment or {})},
            "files": {"script": base64.b64encode(script.encode()).decode(), **(files or {})},
            "lease_s": lease_s,
            "limit_s": limit_s,
            **more,
        }
        self.answer = ask_nodes(
            nodes,
            {"n0": program_command("supervisor", request, start_s, self.mark)},
            lambda _: shapes.STARTED,
        )["n0"]
        assert isinstance(self.answer, dict), self.answer
        self.directory = Path(self.answer["directory"])

    def status(self):
        path = self.directory / "status"
        return json.loads(path.read_text()) if path.exists() else {"rc": None}

    def stop(self):
        command = program_command("supervisor", {"verb": "stop", "mark": self.mark}, 20)
        return ask_nodes(self.nodes, {"n0": command}, lambda _: shapes.STOPPED)["n0"]

    def supervisor(self):
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if self.mark.encode() in words and systemd_standin.__file__.encode() not in words:
                return int(process.name)
        return None


def command_lines():
    for process in Path("/proc").glob("[0-9]*"):
        try:
            yield (process / "cmdline").read_bytes()
        except OSError:
            continue
