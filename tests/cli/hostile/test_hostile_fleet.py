"""Whatever nodes answer or strangers make: no verb breaks, hangs or takes it for good."""

import os
from pathlib import Path

import pytest
from tests.cli.hostile.document import HEAD, STRANGERS, expected, stranger_table
from tests.cli.hostile.lies import SEED_VARIABLE, VERBS, of_verb, runs_of, seed
from tests.cli.hostile.stranger_inputs import AREAS
from tests.cli.hostile.strangers import tried
from tests.cli.hostile.verbs import try_run

pytestmark = pytest.mark.waits

# What repeats a boundary that another run crosses too; discover has the frames.
REPEATED = {
    ("validate", "frames"),
    ("apply --drifted", "all"),
    ("accept", "preflight frames"),
    ("accept", "reach"),
    ("accept", "job"),
}


# An answer that hides behind others has a run of its own.
RUNS = [
    pytest.param(verb, name, marks=[pytest.mark.long] * (name[:5] == "alone" or at in REPEATED))
    for verb in VERBS
    for name, _ in runs_of(verb)
    for at in [(verb, name)]
]
# Completion reads files of runs as `report` does, which has them in `make test`.
INPUTS = [
    *((area, "site: " if area.startswith("completion") else "") for area in AREAS),
    *(
        pytest.param(area, "", marks=pytest.mark.long)
        for area in AREAS
        if area.startswith("completion")
    ),
]
SECURITY = Path(__file__).parents[3] / "docs" / "strangers.md"


@pytest.mark.parametrize(("verb", "name"), RUNS)
def test_no_wrong_answer_does_harm(verb: str, name: str, tmp_path: Path):
    if os.geteuid() != 0:
        pytest.skip("a survey needs root")
    lies = dict(runs_of(verb))[name]
    tally = try_run(verb, lies, tmp_path)
    assert not tally.harm, f"{SEED_VARIABLE}={seed()}\n" + "\n".join(tally.harm)
    assert tally.tried == tally.held == len(lies)


def test_security_page_has_the_numbers_that_are_tried():
    """Refresh with: python -m tests.cli.hostile.document."""
    text = SECURITY.read_text()
    start = text.index(HEAD)
    assert text[start : text.index("\n\n", start) + 1] == expected()


def test_there_are_as_many_as_promised():
    assert sum(len(of_verb(verb)) for verb in VERBS) >= 300
    for verb in VERBS:
        titles = [lie.title for lie in of_verb(verb)]
        assert len(set(titles)) == len(titles)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone meets what no permission keeps off")
@pytest.mark.parametrize(("area", "begins"), INPUTS)
def test_nothing_of_a_stranger_does_harm(area: str, begins: str, tmp_path: Path):
    inputs = [each for each in AREAS[area][0]() if each.title.startswith(begins)]
    assert {title: found for title, found in tried(inputs, tmp_path) if found} == {}


def test_security_page_has_the_numbers_of_strangers():
    """Refresh with: python -m tests.cli.hostile.document."""
    numbers = {area: len(inputs()) for area, (inputs, _) in AREAS.items()}
    text = SECURITY.read_text()
    start = text.index(STRANGERS)
    assert text[start : text.index("\n\n", start) + 1] == stranger_table(
        {area: (number, number) for area, number in numbers.items()}
    )
    assert sum(numbers.values()) >= 300
    for area, (inputs, _) in AREAS.items():
        titles = [each.title for each in inputs()]
        assert len(set(titles)) == len(titles), area
