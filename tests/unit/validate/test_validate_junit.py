"""junit.xml of validate: written check by check, as pytest's own would be."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from tests.unit.validate.test_validate_kinds import report

from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.masks import Mask
from rdmaprov.validate.junit import JUnit


@pytest.fixture
def document(tmp_path, monkeypatch):
    """Return a function that writes reports, and returns what a reader of XML finds."""
    monkeypatch.chdir(tmp_path)

    def write(*reports):
        mask = Mask(["hunter22"])
        with RunDirectory("validate", mask, log="pytest.log") as directory:
            junit = JUnit(directory, mask)
            for each in reports:
                junit.pytest_runtest_logreport(each)
            junit.close()
            kept = directory.path / "junit.xml"
            assert kept.stat().st_mode & 0o777 == 0o600
            assert sorted(path.name for path in directory.path.iterdir()) == ["junit.xml", "logs"]
            return ET.parse(kept).getroot()  # noqa: S314 - our own

    return write


def test_each_check_is_a_case_and_the_head_counts_them(document):
    root = document(
        report("test_mtu", "gpu01", None, "passed"),
        report("test_mtu", "gpu02", None, "passed", when="setup"),
        report("test_mtu", "gpu02", "MTU is 1500"),
        report("test_lost", "gpu03", "no answer", when="setup"),
        report("test_acs", "gpu01", "keep", "skipped"),
    )
    (suite,) = root
    counts = {word: int(suite.get(word)) for word in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": 4, "failures": 1, "errors": 1, "skipped": 1}
    cases = [
        (
            case.get("classname"),
            case.get("name"),
            [(child.tag, child.get("message")) for child in case],
        )
        for case in suite
    ]
    assert cases == [
        ("test_it", "test_mtu[gpu01]", []),
        ("test_it", "test_mtu[gpu02]", [("failure", "MTU is 1500")]),
        ("test_it", "test_lost[gpu03]", [("error", "no answer")]),
        ("test_it", "test_acs[gpu01]", [("skipped", "keep")]),
    ]


def test_text_is_masked_and_what_xml_cannot_have_is_escaped(document):
    root = document(report("test_it", "n1", "hunter22 <b> \x1b[31m \udce9 ]]> \"'&"))
    (failure,) = root.iter("failure")
    for text in (failure.get("message"), failure.text):
        assert text.startswith("******** <b> #x1B[31m #x")
        assert text.endswith(" ]]> \"'&")


def test_file_has_nothing_that_a_terminal_obeys(document, tmp_path):
    root = document(report("test_it", "n1", "\u202egnp.exe \x9b"))
    (failure,) = root.iter("failure")
    assert failure.get("message") == "\u202egnp.exe \x9b"
    (kept,) = tmp_path.glob("runs/*/junit.xml")
    assert "&#x202e;gnp.exe &#x9b;" in kept.read_text()
    assert "\u202e" not in kept.read_text()
