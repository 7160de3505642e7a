"""The inputs of strangers, by area."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import socket
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import cycle, product
from pathlib import Path
from random import Random
from typing import Any

import yaml
from tests.cli.certified import SIZES, CertifiedFleet
from tests.cli.hostile import wrong
from tests.cli.hostile.strangers import SECRET, Input, listen
from tests.cli.hostile_sites import SITES, Hostile
from tests.report import runs
from tests.unit.helpers import fleet_runs
from tests.unit.helpers.sites import GOOD, write
from tests.unit.record.test_record import made

from rdmaprov.history.index import NAME, Index

SITE = "inventory/prod"
_REFUSED = frozenset({2})
_TABLES = yaml.load(Path(__file__).with_suffix(".yml").read_text(), Loader=yaml.CSafeLoader)
_KEYS = "{" + ", ".join(f'"{number}": 0' for number in range(50_000)) + ', "49999": 0}'
# Of any JSON file: by title, what stands in it.
_BOMBS: dict[str, Callable[[], bytes]] = {
    "a key twice behind 50,000": lambda: _KEYS.encode(),
    "keys twice in a mapping of a mapping": lambda: f'{{"predicate": {_KEYS}}}'.encode(),
    "15 MB of brackets": lambda: b'{"_type": ' + b"[]," * 5_000_000 + b"0}",
    "15 MB of mappings": lambda: b'{"_type": [' + b"{}," * 5_000_000 + b"0]}",
    "15 MB of short texts": lambda: b'{"_type": [' + b'"a",' * 4_000_000 + b"0]}",
    "a text of 60 MB": lambda: b'{"_type": "' + b"x" * (60 << 20) + b'"}',
    "60 MB of escapes": lambda: b'{"_type": "' + b"\\n" * (30 << 20) + b'"}',
    "a text without an end": lambda: b'{"_type": "' + b'\\"' * 7_000_000,
    "blanks": lambda: b'{"_type": ' + b" " * (60 << 20) + b"0}",
    "a number of a megabyte": lambda: b'{"_type": ' + b"9" * (1 << 20) + b"}",
    "a fraction of a megabyte": lambda: b'{"_type": 0.' + b"9" * (1 << 20) + b"}",
    "one character of four bytes": lambda: b'{"_type": "\xf0\x9f\x98\x80' + b"x" * (60 << 20),
}
_PLANTS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a directory": lambda path: path.mkdir(),
    "a device without end": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a sparse file of 8 GB": lambda path: _sparse(path, 8 << 30),
    "memory of a process": lambda path: path.symlink_to("/proc/self/mem"),
}


def _sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _put(name: str, data: bytes | Callable[[], bytes], *words: object) -> Callable[[Path], Any]:
    def make(place: Path) -> Sequence[object]:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data() if callable(data) else data)
        return words

    return make


def _leaves(data: Any, path: wrong.Place = ()) -> Iterator[wrong.Place]:
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in pairs:
        if isinstance(value, (dict, list)) and value:
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key)


def _documents(name: str, good: Any, words: Sequence[object], codes: set[int]) -> list[Input]:
    here, rng = partial(_put, name), Random(1)
    places = sorted(_leaves(good), key=repr)
    chosen = places[:: max(1, len(places) // 48)][:48]
    data = wrong.dump(good)
    found: list[tuple[str, Callable[[Path], Any]]] = [
        *((title, here(wrong.wrong_text(title, data, rng), *words)) for title in wrong.TEXTS),
        *(
            ("/".join(map(str, place)), here(wrong.wrong_value(value, good, [place], rng), *words))
            for place, value in zip(chosen, [*wrong.VALUES] * 3, strict=False)
        ),
        *((title, here(bomb, *words)) for title, bomb in _BOMBS.items()),
    ]

    def planted(plant: Callable[[Path], object], place: Path) -> Sequence[object]:
        here(b"")(place)
        (place / name).unlink()
        plant(place / name)
        return words

    found += [(title, partial(planted, plant)) for title, plant in _PLANTS.items()]
    return [Input(title, make, frozenset(codes)) for title, make in found]


def records() -> list[Input]:
    """Return records: cut, other values, bombs, and what is no file."""
    words = ("plan", "--record", "r.json")
    pack = gzip.compress
    bombs: dict[str, Callable[[], bytes]] = {
        "93 MB of brackets in 90 kB": lambda: pack(b'{"a": [' + b"[]," * 31_000_000 + b"0]}", 1),
        "a bomb": lambda: pack(b"{" + b" " * (200 << 20) + b"}", 1),
        "compressed twice": lambda: pack(pack(b"{}")),
        "two members": lambda: pack(b"{}") * 2,
        "no end": lambda: pack(b'{"a": 1}')[:-4],
    }
    packed = [Input(title, _put("r.json", data, *words), _REFUSED) for title, data in bombs.items()]
    return [*_documents("r.json", made(), words, {0, 1, 2, 3, 4, 5}), *packed]


@cache
def _certificate() -> Any:
    place = Path(tempfile.mkdtemp())
    fleet = CertifiedFleet(place)
    with contextlib.chdir(place):
        fleet.accept(*SIZES, "--sign", "operator")
        return json.loads((fleet.newest() / "certificate.json").read_text())


def certificates() -> list[Input]:
    """Return certificates: cut, other values, bombs, and what is no file; none may be valid."""
    return _documents("c.json", _certificate(), ("certificate", "verify", "c.json"), {1, 2, 4})


def results() -> list[Input]:
    name = "runs/20260101-000000-validate/results.json"
    return _documents(name, runs.validated(4), ("report",), {0, 1, 2, 4})


_HISTORY = ("history", SITE, "--metrics", "m.prom")


def _place(place: Path) -> Path:
    fleet_runs.keep(place, fleet_runs.acceptance(1))
    started = {"started": fleet_runs.started(2).isoformat()}
    fleet_runs.keep(place, runs.validated(4) | started)
    return place / "runs" / NAME


def _index(place: Path) -> sqlite3.Connection:
    path = _place(place)
    with Index(path.parent).open():
        pass
    return sqlite3.connect(path, isolation_level=None)


def _planted(statements: str, place: Path) -> Sequence[object]:
    """Change an index, as who sends runs can: they are copied, with the index."""
    kept = contextlib.suppress(sqlite3.IntegrityError)
    with contextlib.closing(_index(place)) as connection, kept:
        connection.executescript(statements)
    path = place / "runs" / NAME
    copied = path.with_name("copied")
    copied.write_bytes(path.read_bytes())
    copied.replace(path)
    return _HISTORY


@cache
def _columns() -> list[tuple[str, str]]:
    with Index(Path("absent")).open() as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [
            (table, row[1])
            for (table,) in tables.fetchall()
            for row in connection.execute(f"PRAGMA table_info({table})")
        ]


def _plant_index(plant: Callable[[Path], object], suffix: str, place: Path) -> Sequence[object]:
    _index(place).close()
    path = place / "runs" / f"{NAME}{suffix}"
    path.unlink(missing_ok=True)
    plant(path)
    return _HISTORY


def _bind(path: Path) -> None:
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made_socket:
        made_socket.bind(path.name)


_FILES: dict[str, Callable[[Path], object]] = {
    "noise": lambda path: path.write_bytes(Random(1).randbytes(65_536)),
    "a head alone": lambda path: path.write_bytes(b"SQLite format 3\0"),
    "text": lambda path: path.write_text("runs\n"),
    "a link to a file of mine": lambda path: path.symlink_to("../../outside/victim"),
    "a hard link to a file of mine": lambda path: os.link(path.parents[2] / "outside/victim", path),
    "a link to nothing": lambda path: path.symlink_to("../../outside/new"),
    "a socket": _bind,
    **_PLANTS,
}


def indexes() -> list[Input]:
    """Return history.sqlite, and what SQLite keeps beside it; the metrics are those without it."""
    values = cycle(("x'00ff'", "'\x1b[2J'", "-9e999", "NULL", "'passed'"))
    changes = {
        f"another {table}.{column}": f"UPDATE OR REPLACE {table} SET {column} = {value}"  # noqa: S608 - our names
        for (table, column), value in zip(_columns(), values, strict=False)
    }
    found: list[tuple[str, Callable[[Path], Any]]] = [
        (title, partial(_planted, text))
        for title, text in {**_TABLES["schemas"], **changes}.items()
    ]
    for suffix, title in (("", ""), ("-journal", "journal: "), ("-wal", "log: ")):
        found += [
            (f"{title}{name}", partial(_plant_index, plant, suffix))
            for name, plant in _FILES.items()
            if not suffix or "8 GB" not in name
        ]
    honest = _honest()

    def same(place: Path, _said: str) -> str:
        file = place / "m.prom"
        return "" if file.exists() and file.read_text() == honest else "the metrics are others"

    codes = frozenset({0})

    def loose(place: Path) -> Sequence[object]:
        _place(place).parent.chmod(0o777)
        return _HISTORY

    written = Input("runs/ that others can write", loose, _REFUSED)
    return [*(Input(title, make, codes, same) for title, make in found), written]


@cache
def _honest() -> str:
    from rdmaprov.history.answer import read_history
    from rdmaprov.history.metrics import metrics_text

    place = Path(tempfile.mkdtemp())
    return metrics_text(read_history(Path(SITE), _place(place).parent))


def metrics() -> list[Input]:
    """Return what stands where a file will be written, or is planted beside it."""
    victim = "../outside/victim"

    def plant(name: str, what: str, place: Path) -> Sequence[object]:
        _place(place)
        plants: dict[str, Callable[[Path], object]] = {
            "pipe": os.mkfifo,
            "directory": Path.mkdir,
            "hard link": partial(os.link, place / victim),
        }
        plants.get(what, lambda path: path.symlink_to(what))(place / name)
        return _HISTORY

    kinds = ("pipe", "directory", "hard link", victim, "/dev/full", "../outside/new", "m.prom")
    names = ("m.prom", "m.prom.new", "m.prom.tmp", ".m.prom", "runs/notified-x.json")
    return [
        Input(f"{name}: {kind}", partial(plant, name, kind), frozenset({0, 2, 4}))
        for name in names
        for kind in kinds
        if name != kind
    ]


def notifications() -> list[Input]:
    def notify(target: str, place: Path) -> Sequence[object]:
        _place(place)
        return ("history", SITE, "--notify", target)

    def receive(receiver: Sequence[Any], place: Path) -> Sequence[object]:
        return notify(f"http://127.0.0.1:{listen(*receiver)}/{SECRET}?{SECRET}", place)

    def program(text: str, place: Path) -> Sequence[object]:
        (place / "tell").write_text(f"#!/bin/sh\n{text}\n")
        (place / "tell").chmod(0o755)
        return notify("tell", place)

    def said(_place: Path, text: str) -> str:
        return "" if "notify: " in text else "nothing is said of the notification"

    codes, no_proxy = frozenset({0}), {"no_proxy": "127.0.0.1"}
    receivers, programs = _TABLES["receivers"], _TABLES["programs"]
    return [
        *(Input(t, partial(receive, of), codes, said, no_proxy) for t, of in receivers.items()),
        *(Input(f"program: {t}", partial(program, of), codes, said) for t, of in programs.items()),
        *(
            Input(f"URL {url!r}", partial(notify, url), frozenset({0, 2}), environment=no_proxy)
            for url in (text.replace("@SECRET@", SECRET) for text in _TABLES["urls"])
        ),
    ]


_EVIL = "ExecStartPre=touch canary"
_NAMES = (
    f"a\n{_EVIL}", f"a\r\n{_EVIL}", "a\\", "a\\\\", f"a\\\n{_EVIL}", "%h", "50%", "%", "$HOME ${X}",
    "a b", "'a'", '"a"', "a;b", "#a", "[Service]", "a\u2028b", "\x1b[2J", "`id`", "-x", "a\\x20b",
)  # fmt: skip
_KEYS_OF_UNITS = {
    *("Description", "Wants", "After", "Type", "User", "WorkingDirectory", "Environment"),
    *("ExecStart", "KillSignal", "KillMode", "TimeoutStopSec"),
    *("OnCalendar", "RandomizedDelaySec", "Persistent", "WantedBy"),
}


def _unit_harm(place: Path, _said: str) -> str:
    """Return what is wrong with units: a line that none of ours is, or one that goes on."""
    for path in (*place.rglob("*.service"), *place.rglob("*.timer")):
        text = path.read_text()
        keys = re.findall(r"^([A-Za-z]+)=", text, re.MULTILINE)
        if text.count("ExecStart") > 1 or not set(keys) <= _KEYS_OF_UNITS:
            return f"a line of a stranger's: {text!r}"
        if "%" in text.replace("%%", "") or re.search(r"\\$", text, re.MULTILINE):
            return f"a specifier, or a line that goes on: {text!r}"
        if len(keys) != len(set(keys) - {"Environment"}) + keys.count("Environment"):
            return f"a line twice: {text!r}"
    return ""


_WHERE = ("site", "directory", "when", "password file", "LOGNAME", "USER", "SLURM_CONF")


def units() -> list[Input]:
    """Return names and variables that reach a unit of systemd's."""

    def make(where: str, name: str, place: Path) -> Sequence[object]:
        site, here = (name if where == "site" else "prod"), place
        if where == "directory":
            here = place / name
        write(here / site, {**GOOD, "group_vars/nodes.yml": "---\nscheduler_kind: slurm\n"})
        (place / "units").mkdir()
        when = ("--validate", f"{name}") if where == "when" else ()
        secret = here / (name if where == "password file" else "password")
        secret.write_text("x")
        words = ("--vault-password-file", secret) if where == "password file" else ()
        return ("schedule", "--directory=units", *when, *words, "--", here / site)

    def given(at: str, name: str) -> Input:
        own = {at: name} if at.isupper() else {}
        codes = frozenset({0, 2, 3})
        return Input(f"{at} {name!r}", partial(make, at, name), codes, _unit_harm, own)

    return [given(*each) for each in product(_WHERE, _NAMES)]


_SCRIPTS = ("hosts", "hosts.sh", "inventory.py", "x.yml", "x.json")


def completions() -> list[Input]:
    """Return sites, and runs of a site, of which a shell completes the names of nodes."""
    words = {"COMP_WORDS": "rdmaprov validate site --limit ", "COMP_CWORD": "4"}
    asked = {**words, "_RDMAPROV_COMPLETE": "bash_complete"}
    script = '#!/bin/sh\ntouch @CANARY@\necho \'{"made": {"hosts": ["n7"]}}\'\n'
    scripts = [Hostile(f"program {name}", {"hosts.yml": None, name: script}) for name in _SCRIPTS]

    def wrong(_place: Path, said: str) -> str:
        offered = [line.removeprefix("plain,") for line in said.split()]
        odd = [name for name in offered if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name)]
        return f"offers {odd[:3]}" if odd else ""

    def put(site: Hostile, make: Callable[[Path], object], place: Path) -> Sequence[object]:
        site.write(place / "site", place / "canary")
        make(place)
        return ()

    runs_of_site = _documents(
        "runs/20260101-000000-validate/results.json", runs.validated(4) | {"site": "site"}, (), {0}
    )
    found = [
        *(
            Input(f"site: {each.id}", partial(put, each, bool), frozenset({0}))
            for each in (*SITES, *scripts)
        ),
        *(replace(each, make=partial(put, Hostile(""), each.make)) for each in runs_of_site),
    ]
    return [replace(each, wrong=wrong, environment=asked) for each in found]


AREAS: dict[str, tuple[Callable[[], list[Input]], str]] = {
    "records (`plan --record`)": (records, "refused with 2, or judged"),
    "certificates (`certificate verify`)": (certificates, "1, 2 or 4: never valid"),
    "results (`report`)": (results, "the page, or 1, 2 or 4"),
    "`history.sqlite`": (indexes, "0, with the metrics of the runs alone"),
    "where a file is written (`--metrics`)": (metrics, "0, or 2 or 4 and nothing written"),
    "`--notify`": (notifications, "0, or 2 before anything; no secret printed"),
    "completion (`--limit`)": (completions, "0, with names alone, and nothing of the site runs"),
    "units (`schedule`)": (units, "units with our lines alone, or 2 or 3"),
}
