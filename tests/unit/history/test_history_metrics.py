"""Metrics of a site, for the reference parser, and notifications, on change alone."""

import hashlib
import hmac
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import click
import pytest
from tests.report import runs
from tests.tables import cases
from tests.unit.helpers import fleet_runs

from rdmaprov.cli import cli, publish, run, session
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history import deliver
from rdmaprov.history.answer import read_history
from rdmaprov.history.certificate_facts import UNTIL
from rdmaprov.history.digest import Fact
from rdmaprov.history.metrics import Gauge, openmetrics_text
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.files import NotWritten, not_written
from rdmaprov.runs.masks import Mask

SITE = "inventory/prod"
DASHBOARD = Path(__file__).parents[3] / "docs/grafana.json"
# Names, labels: dashboards and alerts of users have them. Add, and never rename.
NAMES = {name: set(labels) for name, labels in cases(__file__, "names").items()}
STAGE = cases(__file__, "stage")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "rdmaprov.history.read_run.certificate_facts",
        lambda path, _names: [Fact("", UNTIL, "2026-06-01T00:00:00Z")] if path.exists() else [],
    )
    for number in (1, 2):
        fleet_runs.keep(tmp_path, fleet_runs.acceptance(number) | {"stages": [STAGE]})
    (fleet_runs.keep(tmp_path, runs.validated(4)) / "certificate.json").touch()
    return tmp_path


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the samples of each metric, by the reference parsers of both formats."""
    parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="prometheus_client")
    plain = pytest.importorskip("prometheus_client.parser")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        found[family.name] = [(each.labels, each.value) for each in family.samples]
        assert {each.name for each in family.samples} == {family.name}
        assert {each.timestamp for each in family.samples} == {None}
    same = {
        family.name: [(each.labels, each.value) for each in family.samples]
        for family in plain.text_string_to_metric_families(text)
    }
    assert same == found
    return found


@pytest.mark.usefixtures("place")
def test_reference_parsers_read_the_metrics():
    assert run(["history", SITE, "--metrics", "m.prom"]) == ExitCode.OK
    found = samples(Path("m.prom").read_text())
    labels = {name: {label for each, _ in own for label in each} for name, own in found.items()}
    assert labels == NAMES
    state = {
        (own["node"], own["state"]): value
        for own, value in found["rdmaprov_node_state"]
        if own["verb"] == "validate"
    }
    assert (state["gpu1", "failed"], state["gpu1", "passed"], state["gpu2", "unknown"]) == (1, 0, 1)
    ended = {own["verb"]: value for own, value in found["rdmaprov_run_timestamp_seconds"]}
    proof = {
        own["node"]: value
        for own, value in found["rdmaprov_node_last_proof_timestamp_seconds"]
        if own["verb"] == "accept"
    }
    assert proof == dict.fromkeys(("gpu1", "gpu2", "gpu3", "gpu4"), ended["accept"])
    assert all(1e10 < value < 1e11 for _, value in found["rdmaprov_rail_sent_bytes_per_second"])
    assert len(found["rdmaprov_rail_sent_bytes_per_second"]) == 4 * 8


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("now", "says"), [(1780000000, "valid until"), (1790000000, "expired on")])
def test_newest_certificate_is_named_with_its_end(now, says, capsys, monkeypatch):
    monkeypatch.setattr("rdmaprov.history.answer.time.time", lambda: now)
    run(["history", SITE])
    assert f"newest certificate: {says} 2026-0" in capsys.readouterr().out


@pytest.mark.parametrize("odd", ['a"b', "a\\b", "a\nb", 'a\\"\n', "ü{}=,", ""])
def test_label_is_escaped(odd):
    gauge = Gauge("x", "", "Words.")
    gauge.add(0.25, node=odd)
    assert samples(openmetrics_text([gauge])) == {"x": [({"node": odd}, 0.25)]}


def test_node_that_left_the_site_has_no_metric(place):
    data = fleet_runs.acceptance(9)
    del data["nodes"]["gpu4"]
    limited = fleet_runs.acceptance(10)
    limited["nodes"] = {"gpu1": limited["nodes"]["gpu1"]}
    fleet_runs.keep(place, data | {"limit": None})
    fleet_runs.keep(place, limited | {"limit": "gpu1"})
    assert set(read_history(Path(SITE), place / "runs").nodes) == {"gpu1", "gpu2", "gpu3"}


def test_file_is_replaced_whole_and_readable_by_others(place):
    file = place / "m.prom"
    file.write_text("old")
    with file.open() as reader:
        run(["history", SITE, "--metrics", str(file)])
        assert reader.read() == "old"
    assert file.stat().st_mode & 0o044
    assert sorted(path.name for path in place.iterdir()) == ["m.prom", "runs"]


def test_file_that_cannot_be_written_is_unknown(place, capsys):
    (place / "m.prom").mkdir()
    assert run(["history", SITE, "--metrics", "m.prom/m/m"]) == ExitCode.UNKNOWN
    assert "cannot write m.prom/m/m: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["accept", "apply", "history", "plan", "validate"])
def test_verbs_that_make_runs_have_the_option(verb):
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    options = {name for each in command.params for name in each.opts}
    assert {"--metrics", "--notify", "--notify-secret"} <= options


def concluded(file):
    data = runs.validated(4) | {"started": fleet_runs.started(20).isoformat()}
    with click.Context(cli) as context, RunDirectory("validate", Mask(())) as directory:
        context.meta[publish._KEYS["metrics"]] = file
        text = directory.write_results(data)
        session.conclude(directory, text, [], session.screen_for(None, Mask(())), None)
        assert not file.exists()  # told last, when locks are gone
        if missed := publish.publish_now():
            raise not_written(missed, "")
    return directory


def test_run_of_a_verb_writes_the_metrics_of_its_site(place, capsys):
    concluded(place / "m.prom")
    assert f"metrics: {place / 'm.prom'}" in capsys.readouterr().out
    name = 'rdmaprov_run_timestamp_seconds{site="prod",verb="validate"}'
    lines = (place / "m.prom").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(name))
    assert float(line.split()[-1]) == fleet_runs.started(20).timestamp() + 75


def test_run_of_a_verb_stands_if_its_metrics_cannot_be_written(place):
    with pytest.raises(NotWritten, match=r"cannot write .*m\.prom") as caught:
        concluded(place / "absent" / "m.prom")
    assert caught.value.exit_code == ExitCode.UNKNOWN


def test_dashboard_asks_for_metrics_that_exist():
    data = json.loads(DASHBOARD.read_text())
    asked = [each["expr"] for panel in data["panels"] for each in panel["targets"]]
    names = set(re.findall(r"rdmaprov_\w+", " ".join(asked)))
    assert names <= NAMES.keys()
    assert NAMES.keys() - names <= {
        "rdmaprov_info",
        "rdmaprov_run_duration_seconds",
        "rdmaprov_unreadable_runs",
    }
    for expression in asked:
        name = re.search(r"rdmaprov_\w+", expression)
        assert name is not None
        labels = set(re.findall(r"(\w+)!?=~?\"", expression))
        labels |= set(re.findall(r"by \((\w+)\)", expression))
        assert labels <= NAMES[name[0]]


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
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.headers.append(dict(self.headers))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 204)
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
def validated_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    validated(tmp_path, 1, bad=False)
    return tmp_path


def validated(validated_place, number, *, bad):
    data = runs.validated(4, bad=bad) | {"started": fleet_runs.started(number).isoformat()}
    fleet_runs.keep(validated_place, data)


def notify(target, *words):
    return run(["history", SITE, "--notify", str(target), *words])


def test_change_is_sent_once(validated_place, receiver, capsys):
    notify(receiver.url)
    notify(receiver.url)
    assert "nothing new for http://127.0.0.1\n" in capsys.readouterr().out
    validated(validated_place, 2, bad=True)
    notify(receiver.url)
    notify(receiver.url)
    first, second = map(json.loads, receiver.bodies)
    assert first["runs"] == [
        {"verb": "validate", "was": "", "now": "ok", "run": "20260301-020000-validate"}
    ]
    assert [(each["was"], each["now"]) for each in second["runs"]] == [("ok", "failed")]
    assert {each["node"]: (each["was"], each["now"]) for each in second["nodes"]} == {
        "gpu1": ("good", "failed"),
        "gpu2": ("good", "unknown"),
        "gpu3": ("good", "failed"),
        "gpu4": ("good", "failed"),
    }
    validated(validated_place, 3, bad=False)
    notify(receiver.url)
    assert {each["now"] for each in json.loads(receiver.bodies[2])["nodes"]} == {"good"}
    assert "hidden" not in capsys.readouterr().out


def test_drop_of_a_measurement_is_sent(validated_place, receiver):
    fleet_runs.thirty(validated_place)
    assert notify(receiver.url) == ExitCode.FAILED
    (drop,) = json.loads(receiver.bodies[0])["measurements"]
    assert "rail 3: sent while busy" in drop["text"]
    assert drop["now"] == "worse"
    fleet_runs.keep(validated_place, fleet_runs.acceptance(31))
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


@pytest.mark.parametrize(("words", "says"), cases(__file__, "wrong_words_are_refused"))
def test_wrong_words_are_refused(words, says, validated_place, capsys):
    (validated_place / "secret").write_text("x")
    (validated_place / "empty").write_text("")
    assert run(["history", SITE, *words]) == ExitCode.USAGE
    assert says in capsys.readouterr().err


def test_damaged_state_sends_again(validated_place, receiver):
    notify(receiver.url)
    (state,) = (validated_place / "runs").glob("notified-*.json")
    assert state.stat().st_mode & 0o077 == 0
    state.write_text("{")
    notify(receiver.url)
    assert len(receiver.bodies) == 2
