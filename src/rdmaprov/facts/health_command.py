"""What a site's own health command found: its JSON is ours (docs/health-command.md), or dcgmi's.

Sources: `dcgmi diag -r 1 -j` of DCGM 3.1 and 4.2, `dcgmi health -c -j` (tests/fixtures/dcgmi).
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.boundary import RIGHT, OddAnswer, fields, list_of, parse_answer, text
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import run_program

_MOST_BYTES, _MOST_SAID, _MARGIN_S = 1 << 20, 300, 15
_STATES = {"pass": "ok", "healthy": "ok", "fail": "fail", "failure": "fail", "skip": "skip"}
_VERDICT = {"name": text(r".+", 200), "state": text("ok|fail|skip|unknown"), "text": text()}
_VERDICTS = list_of(fields(_VERDICT), most=1000, least=1)


def ask(host: Host, words: Sequence[str], limit_s: int, **options: bool) -> list[dict[str, str]]:
    """Return what a command found; no shell reads its words, and after `limit_s` it is ended."""
    command = f"timeout -k 5 {limit_s} {shlex.join(words)}"
    done = run_program(host, command, time_limit_s=limit_s + _MARGIN_S, **options)
    if done.rc in (124, 137):  # of timeout
        raise CouldNotTell(f"{words[0]}: no answer within {limit_s} s")
    try:
        return parse(done.stdout)
    except OddAnswer as error:
        raise CouldNotTell(f"{words[0]}: exit code {done.rc}: {error}") from error


def parse(stdout: str) -> list[dict[str, str]]:
    """Return verdicts in JSON of one of the forms: name, state (ok, fail, skip, unknown), text.

    Raises:
        OddAnswer: it has none.
    """
    found = parse_answer(stdout, lambda _any: RIGHT, _MOST_BYTES)
    try:
        verdicts: list[dict[str, str]] = found if isinstance(found, list) else [*_of_dcgmi(found)]
    except (AttributeError, KeyError, TypeError) as error:
        raise OddAnswer("its answer is of no known form") from error
    if (where := _VERDICTS(verdicts)) is not RIGHT:
        raise OddAnswer(f"its answer has a wrong {where or 'shape'}")
    return verdicts


def _of_dcgmi(found: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    if "body" in found:
        word = found["body"]["Overall Health"]["value"]
        yield {
            "name": "Overall Health",
            "state": _STATES.get(word.lower(), "unknown"),
            "text": word,
        }
        return
    # Of DCGM 4, and before. A test has a result for each GPU, or one.
    key = "DCGM Diagnostic" if "DCGM Diagnostic" in found else "DCGM GPU Diagnostic"
    for test in (test for each in found[key]["test_categories"] for test in each["tests"]):
        states = {_STATES.get(each["status"].lower(), "unknown") for each in test["results"]}
        state = next((each for each in ("fail", "unknown", "ok") if each in states), "skip")
        said = "; ".join(str(each.get("warnings", each["status"])) for each in test["results"])
        yield {"name": test["name"], "state": state, "text": said[:_MOST_SAID]}
