"""Files of the controller and of runs: whole, nobody else's, with nothing a terminal obeys."""

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from rdmaprov.boundary import OddAnswer, parse_file
from rdmaprov.errors import UsageError
from rdmaprov.history import read_run
from rdmaprov.problem import visible
from rdmaprov.report import write
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.files import read_whole, require_own, write_whole
from rdmaprov.runs.masks import Mask
from rdmaprov.runs.results import VERBS


def test_mode_and_owner_are_ours_whatever_stood_there(tmp_path: Path):
    for name in ("m.prom", "m.prom.new"):
        (tmp_path / name).write_text("planted")
        (tmp_path / name).chmod(0o666)
    write_whole(tmp_path / "m.prom", "text", mode=0o644)
    found = (tmp_path / "m.prom").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o644, os.geteuid())
    assert (tmp_path / "m.prom.new").read_text() == "planted"


@pytest.mark.parametrize("name", ["m", "m.new"])
def test_no_link_is_followed(tmp_path: Path, name: str):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / name).symlink_to(tmp_path / "victim")
    if name == "m":
        with pytest.raises(OSError, match="it is a link"):
            write_whole(tmp_path / "m", "text")
    else:
        write_whole(tmp_path / "m", "text")
    assert (tmp_path / "victim").read_text() == "mine"
    assert (tmp_path / name).is_symlink()


def test_a_reader_sees_one_of_several_writers_whole(tmp_path: Path):
    path = tmp_path / "m"
    texts = [str(number) * 100_000 for number in range(4)]
    write_whole(path, texts[0])

    def write(text: str) -> None:
        for _ in range(20):
            write_whole(path, text)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


def test_pipes_and_devices_are_no_files(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match=r"no file"):
            read_whole(path, 10)
    with pytest.raises(OSError, match="exceeds 10 bytes"):
        read_whole(Path(__file__), 10)
    with pytest.raises(OSError, match="a pipe or a device"):
        write_whole(tmp_path / "pipe", "")


@pytest.mark.parametrize(("mode", "says"), [(0o777, "chmod go-w"), (0o770, "chmod go-w")])
def test_runs_that_others_can_write_are_refused(tmp_path, monkeypatch, mode, says):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("runs").chmod(mode)
    with pytest.raises(UsageError) as refused:
        RunDirectory("plan", Mask(()))
    assert says in refused.value.hint
    assert list(Path("runs").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away, as root alone can")
def test_runs_of_another_user_are_refused(tmp_path: Path):
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(UsageError, match="another user's"):
        require_own(tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[" * 3_000 + b"]" * 3_000, "more than 1,000 parts"),
        (b'["' + b'","' * 2_000 + b'"]', "more than 1,000 parts"),
        (b'["' + b"[{," * 2_000, "not JSON"),
        (b'["' + b'\\"' * 2_000 + b'"', "not JSON"),
        (b"[1" + b"0" * 400 + b"]", "a number of 401 characters"),
        (b"\xff", "not UTF-8"),
        (b'"' + "\U0001f600".encode() + b"x" * (40 << 20) + b'"', "exceeds 128 MiB"),
    ],
)
def test_json_of_a_stranger_has_limits(text: bytes, why: str):
    with pytest.raises(OddAnswer, match=why):
        parse_file(text, 1_000)


def test_texts_of_json_are_one_part_each():
    assert parse_file(b'["' + b"[{," * 2_000 + b'"]', 2) == ["[{," * 2_000]


SAID = "\x1b[2J \x9b31m \u202egnp.exe \x7f \u2028 \ud800 ü"


def obeyed(text):
    return visible(text, lambda _: "!") != text


def test_results_are_the_same_with_escapes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with RunDirectory("validate", Mask([])) as directory:
        text = directory.write_results({"said": SAID})
    kept = (directory.path / "results.json").read_text()
    assert not obeyed(kept)
    assert not obeyed(text)
    assert "ü" in kept
    assert json.loads(kept) == {"said": SAID}


def test_errors_of_ranks_are_kept_with_escapes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with RunDirectory("accept", Mask([])) as directory:
        path = directory.keep_log("n1.err", f"one\n\t{SAID}\n")
    assert path is not None
    assert not obeyed(path.read_text())
    assert path.read_text().startswith("one\n\t\\x1b[2J")


def test_lines_stay_lines():
    assert visible("a\n\tb") == "a\n\tb"


def test_each_reader_knows_each_verb_that_keeps_a_run():
    assert set(write._VIEWS) == set(read_run._VERBS) == set(VERBS)
