"""The demonstration ends where a step does not end as it must. On nodes: test_validate.py."""

from __future__ import annotations

from lab import demo
from rdmaprov.exit_codes import ExitCode


def test_a_step_that_ends_otherwise_is_the_last(tmp_path, capfd):
    steps = [
        demo.Step("one", ["rdmaprov", "--help"]),
        demo.Step("two", ["rdmaprov", "check", str(tmp_path / "nowhere")]),
        demo.Step("three", ["rdmaprov", "--help"]),
    ]
    assert demo.run(steps, tmp_path) == ExitCode.FAILED
    said = capfd.readouterr().out
    assert "ended with 3, expected 0" in said
    assert "three" not in said
