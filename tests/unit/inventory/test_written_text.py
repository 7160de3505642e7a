"""The text of a number is taken from its file, and only if YAML reads it as that number."""

from pathlib import Path

import pytest
from tests.tables import cases

from rdmaprov.inventory.ansible_api import read_yaml
from rdmaprov.inventory.tags import position_of
from rdmaprov.inventory.type_messages import notation, written_boolean, written_text


@pytest.mark.parametrize(("line", "text"), cases(__file__, "text_is_as_written"))
def test_text_is_as_written(tmp_path: Path, line: str, text: str):
    path = tmp_path / "all.yml"
    path.write_text(f"---\n{line}\n")
    assert written_text(read_yaml(path)["a"]) == text


@pytest.mark.parametrize("content", ["---\na: 4711\n", "---\n", "", "---\na: \xff\n", None])
def test_other_text_at_the_position_is_not_shown(tmp_path: Path, content: str | None):
    """A vaulted file, or one that changed, has another text where the value was read."""
    path = tmp_path / "all.yml"
    path.write_text("---\na: 2.30\n")
    value = read_yaml(path)["a"]
    path.unlink()
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    assert written_text(value) == ""


@pytest.mark.parametrize(("line", "text"), cases(__file__, "boolean_is_as_written"))
def test_boolean_is_as_written(tmp_path: Path, line: str, text: str):
    path = tmp_path / "all.yml"
    path.write_text(f"---\n{line}\n")
    content = read_yaml(path)
    at = next(position_of(key) for key in content if key == "a")
    assert at is not None
    assert written_boolean(at, content["a"]) == text


def test_value_from_no_file_has_no_text():
    assert written_text(2.3) == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [("3:1", "base 60"), ("010", "octal"), ("0", ""), ("10", ""), ("0.5", ""), ("", "")],
)
def test_notation(text: str, name: str):
    assert notation(text) == name
