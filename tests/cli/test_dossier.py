"""`rdmaprov dossier`: what it says, what it leaves out, and that a stranger's program believes it.

The runs are those of made-up fleets of 16 nodes, by the gate's own code. The program that reads the
dossiers is tests/dossier_reader.py. `pytest -m hours` of this file prints the list of forgeries.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from tests import dossier_reader as reader
from tests.madeup.accept import keep_run
from tests.madeup.faults import Truth, kinds
from tests.madeup.shape import usual_shape
from tests.tables import cases

from rdmaprov.cli import run
from rdmaprov.dossier import document
from rdmaprov.dossier.redact import Redaction

pytestmark = pytest.mark.program
ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/dossier.schema.json").read_text())
SHAPE = usual_shape(16)
KINDS = {kind.name: kind for kind in kinds(held_out=True)}
RAIL, OTHER = (10, 0), (3, 5)


def slow(port, swapped=()):
    """Return the fault of a port at a quarter of its rate; two NICs may be swapped before."""

    def breaks(condition, _chance):
        condition.line_gb_s[port] /= 4
        for here, there in (swapped, swapped[::-1]) if swapped else ():
            condition.moved[here] = f"9803:9b03:{there[0]:04x}:{there[1]:04x}"
        return (Truth("rail", (port[0],), port[1]),)

    return replace(KINDS["slow-rail"], breaks=breaks)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Return a directory with two keys, of which one is allowed."""
    place = tmp_path_factory.mktemp("keys")
    for name in ("operator", "stranger"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)]
        subprocess.run(words, check=True)
    key = (place / "operator.pub").read_text()
    (place / "allowed").write_text(f"ops@example.com {key}")
    (place / "expired").write_text(f'ops@example.com valid-before="20200101" {key}')
    return place


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return runs of one site: before the fault, with it, after the NIC is swapped; and another."""
    place = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RDMAPROV_RUNS", str(place / "runs"))
        faults = [None, slow(RAIL), slow(OTHER, (RAIL, OTHER))]
        names = []
        for kind in faults:
            names.append(keep_run(SHAPE, kind)[0])
            time.sleep(1.01)  # a run's time is in whole seconds
        patched.setenv("RDMAPROV_RUNS", str(place / "others"))
        names.append(keep_run(SHAPE, KINDS["half-slot"], 3)[0])
    return place, names


@pytest.fixture
def place(kept, tmp_path, monkeypatch):
    shutil.copytree(kept[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RDMAPROV_RUNS", raising=False)
    return tmp_path


@dataclass
class Case:
    path: Path
    keys: Path
    other: Path
    now: datetime
    allowed: str = "allowed"

    def sign(self, key="operator", namespace=document.NAMESPACE):
        Path(f"{self.path}.sig").unlink(missing_ok=True)
        words = ["ssh-keygen", "-Y", "sign", "-q", "-n", namespace, "-f", str(self.keys / key)]
        subprocess.run([*words, str(self.path)], check=True, capture_output=True)

    def read(self):
        return reader.read(self.path, self.keys / self.allowed, self.now)


def make(runs: Path, name: str, node: str, out: Path, keys: Path) -> Path:
    made = document.make(str(runs / name), node, runs, names=False, now=datetime.now(UTC))
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    document.write(made, out, keys / "operator")
    return out / "dossier.json"


Document = dict[str, Any]
Change = Callable[[Case], object]


def edit(change: Callable[[Document, Document], object], *, again: bool) -> Change:
    """Return the forgery that changes a dossier's content; signed again or not."""

    def forge(case: Case) -> None:
        own, other = json.loads(case.path.read_text()), json.loads(case.other.read_text())
        change(own, other)
        case.path.write_text(json.dumps(own, indent=1))
        if again:
            case.sign()

    return forge


def put(name: str, key: str, value: object, *, again: bool = False, place: int = 0) -> Change:
    return edit(lambda own, _other: own[name][place].__setitem__(key, value), again=again)


def take(*names: str) -> Change:
    return edit(lambda own, other: own.update({n: other[n] for n in names}), again=True)


def data(change: Callable[[bytes], bytes], *, again: bool = False, suffix: str = "") -> Change:
    def forge(case: Case) -> None:
        path = Path(f"{case.path}{suffix}")
        path.write_bytes(change(path.read_bytes()))
        if again:
            case.sign()

    return forge


def at(days: float, *, made: bool = False) -> Change:
    """Return the forgery that is read at another time, and says that it was made then."""

    def forge(case: Case) -> None:
        case.now += timedelta(days=days)
        if made:
            edit(lambda own, _o: own.update(made=case.now.isoformat()), again=True)(case)

    return forge


def every_rate(own: Document, _other: Document) -> None:
    for row in own["tests"]:
        row.update({"gb_s": 340.0} if "gb_s" in row and row["gpu"] is None else {})


def exchange(own: Document, _other: Document) -> None:
    for row in own["history"]:
        row["when"] = {"before": "after", "after": "before"}.get(row["when"], "before")


def other_alone(own: Document, _other: Document) -> None:
    next(r for r in own["history"] if r["run"] == own["run"])["alone_gb_s"] = 1.0


# Changes, signatures of others, old ones, and what an allowed key signed that no fleet said.
FORGERIES: dict[str, Change] = {
    "another serial number": put("parts", "value", "CHS9999", place=2),
    "another value of the NIC": put("parts", "value", "9803:9b03:9999:0000", place=6),
    "another part is accused": edit(lambda o, _: o["accused"].update(part="rail 7"), again=False),
    "another text of the finding": put("findings", "what", "a dead switch"),
    "a finding that is not proven": put("findings", "proven", False),
    "no finding": edit(lambda own, _other: own.update(findings=[]), again=False),
    "other rates": edit(every_rate, again=False),
    "a space more": data(lambda own: own + b" "),
    "cut": data(lambda own: own[:-200]),
    "the same content, written anew": edit(lambda _own, _other: None, again=False),
    "no signature": lambda case: Path(f"{case.path}.sig").unlink(),
    "the signature of another dossier": lambda c: shutil.copy(f"{c.other}.sig", f"{c.path}.sig"),
    "a signature that is cut": data(lambda own: own[:120], suffix=".sig"),
    "a stranger's key": lambda case: case.sign("stranger"),
    "a key for another purpose": lambda case: case.sign(namespace="rdmaprov-certificate"),
    "a key that expired": lambda case: setattr(case, "allowed", "expired"),
    "31 days old": at(31),
    "an old run in a new dossier": at(40, made=True),
    "read before it was made": at(-1),
    "made before its runs ended": edit(
        lambda own, _o: own.update(made="2026-01-01T00:00:00Z"), again=True
    ),
    "another version": edit(lambda own, _other: own.update(schema=2), again=True),
    "tests of another fleet": take("tests", "leaves"),
    "findings of another fleet": take("findings"),
    "nodes alone of another fleet": take("alone"),
    "parts of another fleet": take("parts"),
    "all but the runs of another fleet": take("tests", "leaves", "findings", "alone", "parts"),
    "another node's name": edit(lambda own, _o: own.update(node="gpu099"), again=True),
    "one serial number for two parts": edit(
        lambda own, _o: own["parts"].append({**own["parts"][6], "what": "rail 9: GUID"}), again=True
    ),
    "good rates beside a finding": edit(every_rate, again=True),
    "another rail": put("findings", "rail", 9, again=True),
    "a fault that nobody found": edit(lambda own, _o: own.update(findings=[]), again=True),
    "before and after exchanged": edit(exchange, again=True),
    "a run that is not listed": edit(lambda own, _other: own["runs"].pop(0), again=True),
    "a run twice": edit(lambda own, _o: own["runs"].append(own["runs"][0]), again=True),
    "a value that no run read": put("parts", "run", "", again=True),
    "the time of another run": put("parts", "time", "2026-01-01T00:00:00+00:00", again=True),
    "another rate of the node alone": edit(other_alone, again=True),
    "excluded by a worse number": put("excluded", "value", 1.0, again=True),
    "tests of nodes that it lacks": edit(lambda own, _o: own["leaves"].clear(), again=True),
    "a key twice": data(lambda own: own.replace(b"{", b'{"schema": 1,', 1), again=True),
}


@pytest.fixture(scope="module")
def signed(kept, keys, tmp_path_factory):
    place, names = kept
    out = tmp_path_factory.mktemp("signed")
    other = make(place / "others", names[3], bad_node("half-slot", 3), out / "other", keys)
    return make(place / "runs", names[1], "gpu011", out / "own", keys), other


def bad_node(name: str, seed: int) -> str:
    from tests.madeup.fleet import MadeUpFleet

    return SHAPE.names[MadeUpFleet(SHAPE, KINDS[name], seed).truths[0].nodes[0]]


def case_of(signed, keys, place) -> Case:
    shutil.copytree(signed[0].parent, place, dirs_exist_ok=True)
    return Case(place / "dossier.json", keys, signed[1], datetime.now(UTC))


def test_stranger_names_the_part_without_the_name_and_texts(signed, keys, tmp_path):
    found = case_of(signed, keys, tmp_path).read()
    assert "accused" not in found
    assert not {"what", "remedy"} & found["findings"][0].keys()
    assert reader.name_part(found) == ("rail", frozenset(["gpu011"]), 0, True)


@pytest.mark.parametrize("name", FORGERIES)
def test_forgery_is_refused(signed, keys, tmp_path, name):
    case = case_of(signed, keys, tmp_path)
    FORGERIES[name](case)
    with pytest.raises(reader.Refused):
        case.read()


def test_reader_is_short_and_a_stranger():
    text = Path(reader.__file__).read_text()
    assert len(text.splitlines()) <= 200
    assert "import rdmaprov" not in text
    assert "from rdmaprov" not in text


def test_fault_follows_the_part(kept):
    place, (_, bad, swapped, _) = kept
    found = document.make(bad, "gpu011", place / "runs", names=True, now=datetime.now(UTC))
    assert found["accused"]["part"] == "rail 0 of gpu011"
    moves = {(row["run"], row["part"], row["now"][:15], row["fault"]) for row in found["moves"]}
    assert moves == {
        (swapped, "NIC", "gpu004 rail 5", "follows the part"),
        (swapped, "NIC", "elsewhere: gpu0", "gone with the part"),
    }
    assert [row["when"] for row in found["history"]] == ["before", "this run", "after"]
    assert [row["verdict"] for row in found["history"]] == ["ok", "failed", "failed"]
    assert len({row["what"] for row in found["excluded"]}) >= 4


def test_each_field_says_where_it_comes_from(signed, kept):
    found = json.loads(signed[0].read_text())
    rows = [row for own in found.values() if isinstance(own, list) for row in own]
    assert len(rows) > 100
    for row in rows:
        assert row["command"]
        assert row.get("value") == "not read" or row["run"] in {r["run"] for r in found["runs"]}
    missing = {row["what"]: row.get("why") for row in found["parts"] if row["value"] == "not read"}
    values = {row["what"]: row["value"] for row in found["parts"]}
    assert values["rail 0: serial number of its NIC"] == "MT000a0000"
    assert values["rail 0: cable at rail0: serial number at the node"] == "CBL00100"
    assert values["switch port"] == "leaf-r0 swp1"
    assert values["rail 0: cable at rail0: revision"] == "A"
    assert missing["rail 0: cable at rail0: date code"] == "the field has a filler: __"
    whole = document.make(
        kept[1][0], "gpu003", kept[0] / "runs", names=False, now=datetime.now(UTC)
    )
    serials = [row["value"] for row in whole["parts"] if row["what"].startswith("GPU 7 at")]
    assert "1650002007" in serials
    assert "cable: serial number at the switch" in missing


def test_others_are_left_out_unless_asked(place, kept, capsys):
    words = ["dossier", kept[1][1], "gpu011", "--output", "out"]
    assert run(words) == 0
    text = "".join((place / "out" / name).read_text() for name in ("dossier.json", "dossier.html"))
    assert capsys.readouterr().out.startswith("gpu011: rail 0 of gpu011\n")
    assert "gpu011" in text
    assert not [name for name in SHAPE.names if name != "gpu011" and name in text]
    assert run([*words, "--names"]) == 0
    assert "gpu012" in (place / "out/dossier.json").read_text()


@pytest.mark.parametrize(("text", "clean"), cases(__file__, "redaction"))
def test_redaction(text, clean):
    found = Redaction("gpu1", {"gpu1", "gpu2"}, "inventory/prod").text(text)
    assert clean in found
    for secret in ("gpu2", "10.1.2.3", "4711", "python3", "jo@", "/jo/", "991", "fe80", "aa:bb"):
        assert secret not in found


def test_wrong_input_is_one_line(place, kept, capsys):
    name, whole = kept[1][1], place / "runs" / kept[1][1] / "results.json"
    text = whole.read_text()
    (place / "file").write_text("")
    for words, code, said in (
        (["20200101-000000-accept", "gpu011"], 2, "there is no such run"),
        ([name, "gpu099"], 2, f"gpu099: not in {name}"),
        ([name, "gpu011", "--output", "file/out"], 4, "cannot write file/out: Not a directory"),
        ([name, "gpu011", None], 4, "results.json is missing"),
        ([name, "gpu011", text.replace('"schema": 1', '"schema": 2', 1)], 4, "has schema 2"),
        ([name, "gpu011", text.replace('"ended"', '"end"', 1)], 4, "is not a valid result"),
    ):
        if words[-1] is None or len(words[-1]) > 999:
            whole.unlink(missing_ok=True)
            if content := words.pop():
                whole.write_text(content)
        assert run(["dossier", *words]) == code
        error = capsys.readouterr().err.splitlines()
        assert len(error) == 2
        assert said in error[0]
    assert not (place / "runs" / name / "dossier-gpu011").exists()


@pytest.mark.hours
def test_every_kind_with_a_part_is_named_and_200_forgeries_are_refused(
    keys, tmp_path, monkeypatch, signed, capsys
):
    named, taken, refused, wrong = {}, 0, 0, []
    for number, kind in enumerate(KINDS.values()):
        runs = tmp_path / f"runs{number}"
        monkeypatch.setenv("RDMAPROV_RUNS", str(runs))
        name, done = keep_run(SHAPE, kind, 1)
        truths = done.fleet.truths
        guilty = {node for truth in truths for node in truth.nodes}
        others = [node for node in range(16) if node not in guilty]
        for node in [*truths[0].nodes[:1], *others[:2], *others[-2:]]:
            path = make(runs, name, SHAPE.names[node], tmp_path / f"{number}-{node}", keys)
            found = reader.read(path, keys / "allowed", datetime.now(UTC))
            taken += 1
            part = reader.name_part(found)
            if node in guilty:
                named[kind.name] = part is not None and any(
                    is_right(part, t, SHAPE.names[node]) for t in truths
                )
            elif part and part[3] and part[0] != "fleet":
                wrong.append((kind.name, node, part))
    for base in ("slow-rail", "half-slot", "lossy-rail", "other-traffic", "liar-healthy"):
        runs = tmp_path / base
        monkeypatch.setenv("RDMAPROV_RUNS", str(runs))
        name, _ = keep_run(SHAPE, KINDS[base], 2)
        own = make(runs, name, bad_node(base, 2), tmp_path / f"{base}-own", keys)
        for number, forgery in enumerate(FORGERIES):
            case = case_of((own, signed[1]), keys, tmp_path / f"{base}-{number}")
            FORGERIES[forgery](case)
            with pytest.raises(reader.Refused):
                case.read()
            refused += 1
    with capsys.disabled():
        lost = [kind for kind, is_named in named.items() if not is_named]
        click.echo(f"\n{len(named) - len(lost)} of {len(named)} kinds are named, not {lost}")
        click.echo(
            f"{taken} true ones taken, {refused} forged ones refused: {', '.join(FORGERIES)}"
        )
    assert wrong == []
    assert sum(named.values()) >= 0.95 * len(named)
    assert taken >= 200
    assert refused >= 200


def is_right(part, truth: Truth, of: str) -> bool:
    """Return whether a part is the one; a leaf and a path may be named without their rail."""
    level, nodes, rail, _ = part
    shown = Redaction(of, SHAPE.names, "site")  # other nodes have other names in a dossier
    same = level == truth.level and nodes == {shown.text(SHAPE.names[n]) for n in truth.nodes}
    return same and (rail == truth.rail or (rail is None and level in ("leaf", "pair")))
