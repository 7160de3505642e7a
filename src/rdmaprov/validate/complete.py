"""Whether a run asked everything that the suite asks, node by node: half a validate is none."""

import re
import time
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from rdmaprov.resources import suite_dir
from rdmaprov.validate.fixtures import SELECTION
from rdmaprov.validate.items import target_of

# A node that was up for longer than the run was in one boot meanwhile.
_ASK = "cat /proc/sys/kernel/random/boot_id /proc/uptime"
_BOOT = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\n(\d{1,12}\.\d{1,9}) ")
_ON_REQUEST = "acceptance"  # the mark of what no validate runs unless it is asked for
_TO_THE_END = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
# pytest's options that leave checks out, by what it calls their values.
_CHOOSING = {
    "keyword": "-k",
    "markexpr": "-m",
    "lf": "--lf",
    "deselect": "--deselect",
    "ignore": "--ignore",
    "ignore_glob": "--ignore-glob",
}


class Completeness:
    """What a run was to ask, and which nodes it asked all of it; a plugin of pytest's.

    Args:
        is_live: whether nodes are asked; else records are.
        is_limited: whether the site has nodes that are not to be judged.

    Attributes:
        left_out: the options and files that left checks out, or `--record`.
        due: by node, how many checks it is to be asked; the fleet's name is empty.
        boots: by node, the id of the boot in which it was asked everything, and its uptime, s.
    """

    def __init__(self, *, is_live: bool = True, is_limited: bool = False) -> None:
        self.left_out: list[str] = [] if is_live else ["--record"]
        self.boots: dict[str, tuple[str, float]] = {}
        self._is_live, self.is_limited = is_live, is_limited
        self.due: Counter[str] = Counter()
        self._deselected: set[str] = set()
        self._began = time.monotonic()

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Note which options leave checks out."""
        config = session.config
        values = {word: getattr(config.option, name, None) for name, word in _CHOOSING.items()}
        self.left_out += [
            word if value is True else f"{word} {value if isinstance(value, str) else value[0]}"
            for word, value in values.items()
            if value
        ]
        suite = suite_dir().resolve()
        whole = (suite, *suite.parents)
        self.left_out += [arg for arg in config.args if Path(arg).resolve() not in whole]

    def pytest_deselected(self, items: Collection[pytest.Item]) -> None:
        """Note what something else than an option leaves out."""
        self._deselected |= {
            _name(each) for each in items if each.get_closest_marker(_ON_REQUEST) is None
        }

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the checks of each node."""
        self.due.update(map(_name, session.items))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Ask each node for its boot, while there are connections; nobody after an interrupt.

        Who ended the run does not wait for nodes, and what asks them may be half started.
        """
        selection = session.config.stash.get(SELECTION, None)
        if selection is None or not self._is_live or exitstatus not in _TO_THE_END:
            return
        asked = dict.fromkeys(filter(None, self.due), _ASK)
        answers = selection.hosts.run({n: ask for n, ask in asked.items() if n in selection.hosts})
        lasted = time.monotonic() - self._began
        for name, answer in answers.items():
            found = None if isinstance(answer, Exception) else _BOOT.match(answer.stdout)
            if found and float(found[2]) > lasted:
                self.boots[name] = found[1], float(found[2])

    def is_complete(self, name: str, counts: Mapping[str, int]) -> bool:
        """Return whether a node, or the fleet (empty), was asked everything."""
        whole = not self.left_out and name not in self._deselected
        return whole and 0 < self.due[name] <= sum(counts.values())


def _name(item: pytest.Item) -> str:
    target = target_of(item)
    return "" if target is None else target.node.name
