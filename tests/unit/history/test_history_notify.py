"""Notifications: on change alone, signed, tried again, not lost if the receiver is away."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.report import runs
from tests.unit.helpers import fleet_runs

from rdmaprov.cli import run
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history import deliver

SITE = "inventory/prod"
SECRET = b"a secret of the site"


class Receiver(HTTPServer):
    """Keeps what it is sent; answers with the statuses that it is given, then with 204."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses: list[int] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/hook?token=hidden"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(body)
        self.server.headers.append(dict(self.headers))
        status = self.server.statuses.pop(0) if self.server.statuses else 204
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_words):
        pass


@pytest.fixture
def receiver(monkeypatch):
    monkeypatch.setattr(deliver, "PAUSES_S", (0.0, 0.0))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    validated(tmp_path, 1, bad=False)
    return tmp_path


def validated(place, number, *, bad):
    data = runs.validated(4, bad=bad) | {"started": fleet_runs.started(number).isoformat()}
    fleet_runs.keep(place, data)


def notify(target, *words):
    return run(["history", SITE, "--notify", str(target), *words])


def test_change_is_sent_once(place, receiver, capsys):
    notify(receiver.url)
    notify(receiver.url)
    assert "nothing new for http://127.0.0.1\n" in capsys.readouterr().out
    validated(place, 2, bad=True)
    notify(receiver.url)
    notify(receiver.url)
    first, second = map(json.loads, receiver.bodies)
    assert first["runs"] == [
        {"verb": "validate", "was": "", "now": "ok", "run": "20260301-020000-validate"}
    ]
    assert [(each["was"], each["now"]) for each in second["runs"]] == [("ok", "failed")]
    nodes = {each["node"]: (each["was"], each["now"]) for each in second["nodes"]}
    assert nodes == {
        "gpu1": ("good", "failed"),
        "gpu2": ("good", "unknown"),
        "gpu3": ("good", "failed"),
        "gpu4": ("good", "failed"),
    }
    validated(place, 3, bad=False)
    notify(receiver.url)
    assert {each["now"] for each in json.loads(receiver.bodies[2])["nodes"]} == {"good"}
    assert "hidden" not in capsys.readouterr().out


def test_drop_of_a_measurement_is_sent(place, receiver):
    fleet_runs.thirty(place)
    assert notify(receiver.url) == ExitCode.FAILED
    (drop,) = json.loads(receiver.bodies[0])["measurements"]
    assert "rail 3: sent while busy" in drop["text"]
    assert drop["now"] == "worse"
    fleet_runs.keep(place, fleet_runs.acceptance(31))
    notify(receiver.url)
    assert len(receiver.bodies) == 1


@pytest.mark.usefixtures("place")
def test_signature_is_of_time_and_body(tmp_path, receiver):
    key = tmp_path / "secret"
    key.write_bytes(SECRET + b"\n")
    notify(receiver.url, "--notify-secret", str(key))
    time, _, given = receiver.headers[0][deliver.SIGNATURE].partition(",sha256=")
    signed = time.removeprefix("t=").encode() + b"." + receiver.bodies[0]
    assert hmac.new(SECRET, signed, hashlib.sha256).hexdigest() == given


@pytest.mark.usefixtures("place")
def test_receiver_that_fails_at_first_is_tried_again(receiver, capsys):
    receiver.statuses = [503, 429]
    notify(receiver.url)
    assert len(receiver.bodies) == 3
    assert len(set(receiver.bodies)) == 1
    assert "notify: sent to" in capsys.readouterr().out


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("statuses", "tries"), [([500] * 3, 3), ([404], 1), ([307], 1)])
def test_what_nobody_took_is_sent_with_the_next_run(statuses, tries, receiver, capsys):
    receiver.statuses = list(statuses)
    assert notify(receiver.url) == ExitCode.OK
    said = f"did not take it: HTTP status {statuses[0]}; the next run sends it again"
    assert said in capsys.readouterr().out
    assert len(receiver.bodies) == tries
    notify(receiver.url)
    assert len(receiver.bodies) == tries + 1


@pytest.mark.usefixtures("place")
def test_receiver_that_is_away_ends_no_run(receiver, capsys, monkeypatch):
    monkeypatch.setattr(deliver, "PAUSES_S", (0.0,))
    assert notify("http://127.0.0.1:1/") == ExitCode.OK
    assert "did not take it: " in capsys.readouterr().out
    assert not receiver.bodies


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("code", "says"), [(0, "sent to"), (3, "the program ended with 3")])
def test_program_reads_it_from_its_standard_input(code, says, tmp_path, capsys):
    program = tmp_path / "tell"
    program.write_text(f'#!/bin/sh\ncat > "{tmp_path}/got"\nexit {code}\n')
    program.chmod(0o755)
    notify("tell")  # of the working directory, which PATH need not have
    assert json.loads((tmp_path / "got").read_text())["site"] == "prod"
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--notify", "ftp://x"], "neither an http or https URL nor a program"),
        (["--notify", "nowhere"], "neither an http or https URL nor a program"),
        (["--notify-secret", "secret"], "needs --notify with a URL"),
        (["--notify", "secret", "--notify-secret", "secret"], "needs --notify with a URL"),
        (["--notify", "http://x", "--notify-secret", "empty"], "is empty"),
    ],
)
def test_wrong_words_are_refused(words, says, place, capsys):
    (place / "secret").write_text("x")
    (place / "empty").write_text("")
    assert run(["history", SITE, *words]) == ExitCode.USAGE
    assert says in capsys.readouterr().err


def test_damaged_state_sends_again(place, receiver):
    notify(receiver.url)
    (state,) = (place / "runs").glob("notified-*.json")
    assert state.stat().st_mode & 0o077 == 0
    state.write_text("{")
    notify(receiver.url)
    assert len(receiver.bodies) == 2
