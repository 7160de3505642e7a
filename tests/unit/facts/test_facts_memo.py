"""Results of parsers are kept for equal texts, for no others, and in bounded memory."""

from __future__ import annotations

import pytest

from rdmaprov.facts import devices, memo
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import END, parse_files


def counted():
    """Return a parser that keeps its results, and the texts that it was called with."""
    calls = []

    @remember
    def parse(*texts):
        calls.append(texts)
        if "bad" in texts:
            raise CouldNotTell("bad")
        return list(texts)

    return parse, calls


def test_equal_texts_are_parsed_once():
    parse, calls = counted()
    assert parse("a", "b") is parse("".join(["a"]), "b")
    assert calls == [("a", "b")]


def test_texts_that_differ_anywhere_have_their_own_results():
    parse, _ = counted()
    texts = [("ab", ""), ("a", "b"), ("", "ab"), ("ab",), ("ab", "", "")]
    assert [parse(*each) for each in texts] == [list(each) for each in texts]
    assert [parse(*each) for each in texts] == [list(each) for each in texts]


def test_error_is_raised_each_time():
    parse, calls = counted()
    for _ in range(2):
        with pytest.raises(CouldNotTell):
            parse("bad")
    assert len(calls) == 2


def test_texts_of_any_number_and_length_take_bounded_memory(monkeypatch):
    monkeypatch.setattr(memo, "_MOST_CHARACTERS", 100)
    parse, calls = counted()
    texts = [str(number) * 30 for number in range(9)]
    for text in [*texts, "x" * 1000]:
        assert parse(text) == [text]
    assert parse(texts[8]) == [texts[8]]  # the long one took the place of all
    assert len(calls) == 11
    parse(texts[7])
    parse(texts[8])
    parse(texts[6])
    parse(texts[5])  # in the place of 7, which was used before 8
    assert len(calls) == 14
    parse(texts[8])
    assert len(calls) == 14
    parse(texts[7])
    assert len(calls) == 15


def test_nodes_whose_answers_differ_in_one_character_have_their_own_devices():
    listing = f"/sys/class/net/ens1 ../../devices/pci0000:00/0000:00:04.0/net/ens1\n{END}\n"
    said = "/sys/class/net/ens1/mtu\0{}\n" + END + "\n"
    mtus = ["9000", "1500", "9000"]
    found = [devices.parse(listing, said.format(mtu), "").netdev("ens1", "mtu") for mtu in mtus]
    assert found == mtus


def test_reasons_belong_to_a_file_s_result():
    denied = "grep: /a: Permission denied\n"
    assert parse_files(f"{END}\n", denied, "/a").reasons == {"/a": "Permission denied"}
    assert parse_files(f"{END}\n", "", "/a").texts == {"/a": ""}
