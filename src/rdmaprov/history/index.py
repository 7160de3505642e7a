"""One SQLite file with what history keeps of all runs; made from their files, and rebuilt at will.

Nothing is in it that the runs do not have: a damaged one, or one of another version of rdmaprov, is
thrown away. A run is read again when its files changed.
"""

import contextlib
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

import rdmaprov
from rdmaprov.history import read_run
from rdmaprov.history.digest import RunDigest, RunSeries
from rdmaprov.problem import printable
from rdmaprov.report.read import newest_first
from rdmaprov.runs.files import require_own
from rdmaprov.runs.results import RESULTS, NotRead

NAME = "history.sqlite"
_VERSION = 3  # of the tables; another one is thrown away
_WAIT_S = 30.0  # for another history that writes it; our choice
_TRUST_S = 5.0  # to see that a file is one of ours; 10,000 runs take 0.5 s
_STEPS = 10_000  # of SQLite's machine between two looks at the time
_MOST_BYTES = 1 << 30
_TABLES = """
CREATE TABLE made (version TEXT);
CREATE TABLE run (
  id INTEGER PRIMARY KEY, name TEXT UNIQUE, stamp TEXT, problem TEXT, verb TEXT, site TEXT,
  scope TEXT, started REAL, seconds REAL, exit_code INTEGER);
CREATE TABLE state (run INTEGER, node TEXT, state TEXT);
CREATE TABLE partial (run INTEGER, node TEXT);
CREATE TABLE stage (run INTEGER, name TEXT, state TEXT);
CREATE TABLE series (
  id INTEGER PRIMARY KEY, stage TEXT, what TEXT, node TEXT, rail INTEGER, bytes INTEGER, unit TEXT,
  scope TEXT);
CREATE TABLE value (run INTEGER, series INTEGER, value REAL, PRIMARY KEY (series, run))
  WITHOUT ROWID;
CREATE TABLE fact (run INTEGER, node TEXT, key TEXT, value TEXT);
CREATE TABLE trouble (
  run INTEGER, key TEXT, node TEXT, rail INTEGER, text TEXT, proven INTEGER, words TEXT);
CREATE TABLE setting (
  run INTEGER, node TEXT, role TEXT, device TEXT, setting TEXT, seen TEXT, wanted TEXT);
CREATE INDEX state_run ON state (run);
CREATE INDEX partial_run ON partial (run);
CREATE INDEX stage_run ON stage (run);
CREATE INDEX value_run ON value (run);
CREATE INDEX fact_run ON fact (run);
CREATE INDEX trouble_run ON trouble (run);
CREATE INDEX setting_run ON setting (run);
"""
_STATEMENTS = [" ".join(each.split()) for each in _TABLES.split(";") if each.strip()]
# Tables of a run, whose first column it is, with how many columns each has.
_OF_RUN = {"state": 3, "partial": 2, "stage": 3, "value": 3, "fact": 4, "trouble": 7, "setting": 7}


@dataclass(frozen=True)
class Unread:
    """A run that is left out, and why."""

    run: str
    why: str


class Index:
    """The runs of a directory, read."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._series: dict[RunSeries, int] = {}

    @contextlib.contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Provide the index, which has all runs as they are now.

        Where it cannot be written, it is made in memory, which takes longer.
        """
        connection = self._current()
        try:
            yield connection
        finally:
            connection.close()

    def _current(self) -> sqlite3.Connection:
        require_own(self._runs)
        path = self._runs / NAME
        for attempt in ("as it is", "anew", "in memory"):
            try:
                if attempt == "anew" or (attempt == "as it is" and not _is_ours(path)):
                    for suffix in ("", "-journal", "-wal", "-shm"):
                        path.with_name(f"{NAME}{suffix}").unlink(missing_ok=True)
                return self._updated(":memory:" if attempt == "in memory" else str(path))
            except (sqlite3.Error, OSError):
                if attempt == "in memory":
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _updated(self, path: str) -> sqlite3.Connection:
        self._series = {}
        if path != ":memory:":
            Path(path).touch(mode=0o600)  # only its user can read a run, and so what is kept of it
        connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA synchronous = OFF")  # it can be rebuilt
            connection.execute("BEGIN IMMEDIATE")
            end = time.monotonic() + _TRUST_S
            connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            self._make(connection, path)
            connection.set_progress_handler(None, 0)
            self._read_changed(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _make(self, connection: sqlite3.Connection, path: str) -> None:
        """Make the tables, if there are none of this version.

        Raises:
            sqlite3.DatabaseError: there are others, the file is damaged, or came with runs that
                were copied: whoever made them can write anything into it.
        """
        place = os.lstat(path) if path != ":memory:" else None
        copy = f"{place.st_dev} {place.st_ino}" if place else ""
        own = f"{_VERSION} {rdmaprov.__version__} {copy}"
        there = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 99")
        statements = [each for (each,) in there]
        if not statements:
            for statement in _STATEMENTS:
                connection.execute(statement)
            connection.execute("INSERT INTO made VALUES (?)", (own,))
        elif sorted(statements) != sorted(_STATEMENTS):  # a view, say, that never ends
            raise sqlite3.DatabaseError("other tables")
        elif connection.execute("SELECT version FROM made").fetchone() != (own,):
            raise sqlite3.DatabaseError("made by another version")
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("damaged")
        self._series = {
            RunSeries(*row): number
            for number, *row in connection.execute(
                "SELECT id, stage, what, node, rail, bytes, unit, scope FROM series"
            )
        }

    def _read_changed(self, connection: sqlite3.Connection) -> None:
        known = dict(connection.execute("SELECT name, stamp FROM run"))
        there = {path.name: path for path in newest_first(self._runs)}
        stamps = {name: _stamp(path) for name, path in there.items()}
        for name in known.keys() - there.keys():
            _forget(connection, name)
        for name, stamp in stamps.items():
            if known.get(name) != stamp:
                _forget(connection, name)
                self._add(connection, there[name], stamp)

    def _add(self, connection: sqlite3.Connection, directory: Path, stamp: str) -> None:
        try:
            digest = read_run.read_run(directory)
        except FileNotFoundError:
            why = "no results: the run was killed, or is still running"
        except NotRead as error:
            why = str(error)
        else:
            self._add_digest(connection, directory.name, stamp, digest)
            return
        connection.execute(
            "INSERT INTO run (name, stamp, problem) VALUES (?, ?, ?)",
            (directory.name, stamp, printable(why)),
        )

    def _add_digest(
        self, connection: sqlite3.Connection, name: str, stamp: str, own: RunDigest
    ) -> None:
        run = connection.execute(
            "INSERT INTO run (name, stamp, verb, site, scope, started, seconds, exit_code)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (name, stamp, own.verb, own.site, own.limit, own.started, own.seconds, own.exit_code),
        ).lastrowid
        for table, rows in (
            ("state", own.states.items()),
            ("partial", ((node,) for node in own.partial)),
            ("stage", own.stages.items()),
            ("fact", map(astuple, own.facts)),
            ("trouble", map(astuple, own.troubles)),
            ("setting", map(astuple, own.settings)),
            ("value", ((self._number(connection, each), v) for each, v in own.values.items())),
        ):
            insert = f"INSERT INTO {table} VALUES ({', '.join('?' * _OF_RUN[table])})"  # noqa: S608
            connection.executemany(insert, ((run, *row) for row in rows))

    def _number(self, connection: sqlite3.Connection, series: RunSeries) -> int:
        if series not in self._series:
            made = connection.execute(
                "INSERT INTO series (stage, what, node, rail, bytes, unit, scope)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                astuple(series),
            )
            self._series[series] = int(made.lastrowid or 0)
        return self._series[series]


def _forget(connection: sqlite3.Connection, name: str) -> None:
    found = connection.execute("SELECT id FROM run WHERE name = ?", (name,)).fetchone()
    if found is None:
        return
    for table in _OF_RUN:
        connection.execute(f"DELETE FROM {table} WHERE run = ?", found)  # noqa: S608 - our own names
    connection.execute("DELETE FROM run WHERE id = ?", found)


def _is_ours(path: Path) -> bool:
    """Return whether a file and what SQLite keeps beside it are files, of ours, and not too large.

    SQLite would follow a link, and wait for a pipe.
    """
    for suffix in ("", "-journal", "-wal", "-shm"):
        try:
            found = path.with_name(f"{path.name}{suffix}").lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return False
        if found.st_nlink > 1 or found.st_size > _MOST_BYTES:
            return False
    return True


def _stamp(directory: Path) -> str:
    """Return what changes when the files of a run change."""
    found = []
    for name in (RESULTS, read_run.CERTIFICATE):
        try:
            own = (directory / name).stat()
            found.append(f"{own.st_ino} {own.st_size} {own.st_mtime_ns}")
        except OSError:
            found.append("")
    return "; ".join(found)
