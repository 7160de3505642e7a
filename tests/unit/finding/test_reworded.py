"""Nothing but a reader's eyes depends on the words of a finding: other words, the same verdicts.

In one of two runs of everything, each `what` and `remedy` is its kind's id reversed.
"""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.madeup.accept import accept
from tests.madeup.faults import kinds
from tests.madeup.shape import usual_shape
from tests.madeup.watch_faults import FAULTS as WATCHED
from tests.madeup.watching import watch_fault
from tests.unit.helpers.nccl_jobs import Job, of
from tests.unit.helpers.subnet_texts import Texts
from tests.unit.helpers.switch_answers import NAMES, SavedAnswers
from tests.unit.subnet.test_site_subnet import planned, swap

from rdmaprov.acceptance.result import GateResult
from rdmaprov.certificate import of_gate
from rdmaprov.certificate.recompute import verdict_objections
from rdmaprov.certificate.verify import verify
from rdmaprov.cli import accept_run, certificate_run
from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding, exit_code
from rdmaprov.history import compare, deliver, metrics
from rdmaprov.history.answer import read_history
from rdmaprov.history.read_run import read_run
from rdmaprov.nccl_log import transport
from rdmaprov.report import of_accept
from rdmaprov.runs.envelope import Head
from rdmaprov.site_subnet.judge_site import judge_site
from rdmaprov.site_subnet.result import findings_data, nodes_data
from rdmaprov.switches.judge import document as switches_data
from rdmaprov.switches.wanted import usual_settings
from rdmaprov.watch.results import WatchResult
from rdmaprov.watch.verdict import as_data, key

pytestmark = pytest.mark.program  # seven fleets, twice

SITE = Path("inventory/prod")
STARTED = datetime(2026, 11, 1, 2, tzinfo=UTC)
# With what a clock says.
WORDS = {"what", "remedy", "text", "title", "said", "left_out", "seconds", "id", "time", "fix"}
KINDS = (
    "leaf-lossy",
    "lossy-rail",
    "dead-rank",
    "corrupting",
    "bad-path",
    "socket-fallback",
    "no-gdr",
)
FAULTS = {kind.name: kind for kind in kinds(held_out=True)}


def reword(patch: pytest.MonkeyPatch) -> None:
    """Give everything that is found other words, once it is made."""
    for made, words in ((Finding, ("what", "remedy")),):
        patch.setattr(made, "__init__", _then_reworded(made.__init__, words))


def _then_reworded(init: Any, names: tuple[str, ...]) -> Any:
    def made(self: Any, *words: Any, **more: Any) -> None:
        init(self, *words, **more)
        for name in names:
            object.__setattr__(self, name, str(self.kind)[::-1])

    return made


def without_words(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: without_words(each) for key, each in data.items() if key not in WORDS}
    return [without_words(each) for each in data] if isinstance(data, list) else data


def predicate_of(result: GateResult) -> dict[str, Any]:
    """Return what a certificate would say of a gate that found something wrong."""
    measured = of_gate.measured_by_node(result) if result.ran else {}
    nodes = {name: {"ranks": measured.get(name, [])} for name in result.nodes}
    return {**of_gate.parts_of(result), "nodes": nodes}


def objected(found: list[Finding]) -> tuple[Any, ExitCode]:
    return [without_words(certificate_run.as_data(each)) for each in found], exit_code(found)


def run_all(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for day, name in enumerate(KINDS):
        result = accept(usual_shape(8), FAULTS[name], 3).result
        began = STARTED + timedelta(days=day)
        head = Head("accept", SITE, None, began)
        data = json.loads(json.dumps(accept_run.document(head, began, result)))
        place = directory / "runs" / f"{began:%Y%m%d-%H%M%S}-accept"
        place.mkdir(parents=True)
        (place / "results.json").write_text(json.dumps(data))
        assert result.findings, name
        found[name] = without_words(data), result.exit_code()
        objections = list(verdict_objections(predicate_of(result)))
        assert objections, name
        found[f"{name}: certificate"] = objected(objections)
        page = of_accept.view(data)
        found[f"{name}: page"] = {
            (each.tone, each.where, node) for each in page.issues for node in each.nodes or [""]
        }
    places = sorted((directory / "runs").glob("*-accept"))
    history = read_history(SITE, directory / "runs")
    found["history"] = [without_words(each.as_data()) for each in history.troubles]
    found["metrics"] = metrics.metrics_text(history)
    nothing: deliver.Snapshot = {"runs": {}, "nodes": {}, "worse": {}}
    found["news"] = deliver.snapshot(history)
    found["notify"] = without_words(deliver.message(history, nothing, deliver.snapshot(history)))
    for one, other in pairwise([read_run(place) for place in places]):
        differences = compare.compare(one, other).troubles
        found[f"compare {one.name}"] = [
            (bool(each.was), bool(each.now), each.nodes, each.is_worse) for each in differences
        ]
    texts = Texts(directory / "subnet")
    texts.gone("node016 mlx5_0", "node016 mlx5_1", "node003 mlx5_1")
    swap(texts, "node001 mlx5_0", "node009 mlx5_0")
    subnet = judge_site(planned(), [texts.judge()])
    assert len(subnet.findings) > 3
    found["subnet"] = without_words(findings_data(subnet)), nodes_data(subnet), subnet.exit_code
    altered = directory / "certificate.json"
    altered.write_text(json.dumps({"_type": "https://in-toto.io/Statement/v1", "predicate": {}}))
    found["certificate"] = objected(verify(altered, None, STARTED).objections)
    matrix = of(Job(networks={3: "Socket"}, without_gdr=frozenset({2})).text())
    problems = transport.judge(matrix, None, None, gdr_required=True)
    found["nccl"] = [without_words(each.as_data()) for each in problems], exit_code(problems)
    assert len(problems) > 1
    for name in NAMES:
        judged = SavedAnswers(directory, name).judge()
        found[f"switch {name}"] = without_words(switches_data([judged], usual_settings()))
    for name, fault in WATCHED.items():
        watching = watch_fault(fault, (5, 3), 1, 12)
        verdicts = watching.verdicts()
        keys = [key(each) for each in verdicts]
        code = WatchResult(watching.fleet(), verdicts).exit_code()
        found[f"watch {name}"] = without_words([as_data(each) for each in verdicts]), keys, code
    return found


def test_verdicts_kinds_places_keys_and_exit_codes_are_the_same_in_other_words(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("RDMAPROV_RUNS", str(tmp_path / "none"))
    usual = run_all(tmp_path / "usual")
    with monkeypatch.context() as patch:
        reword(patch)
        reworded = run_all(tmp_path / "reworded")
    said = json.loads(next((tmp_path / "reworded").rglob("results.json")).read_text())["findings"]
    assert {each["what"] for each in said} == {each["kind"][::-1] for each in said}
    for part, own in usual.items():
        assert reworded[part] == own, part
