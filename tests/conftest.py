"""What every test of the project may rely on."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest
from hypothesis import settings
from jinja2 import Environment
from tests.unit.helpers.slurm_cluster import running_cluster
from xdist.scheduler import LoadScopeScheduling

# Two labs share the tests of the lab. One begins with all that needs provisioned nodes, so that
# they are provisioned once at most. Each takes a module of the rest when free.
PROVISIONED = ("test_acceptance", "test_validate", "test_watch")
ROOT = Path(__file__).parents[1]
# Where the tests of a run write down the directories of their labs.
LABS = "RDMAPROV_TESTS_LABS"
END_LAB_S = 120
# How many examples a property is tried with: all of them, or as many as `make check` has time for.
settings.register_profile("test", deadline=None)
settings.register_profile("check", deadline=None)
settings.load_profile("test")


def pytest_xdist_auto_num_workers() -> int:
    """Return more workers than processors: some tests only wait for what they started."""
    processors = len(os.sched_getaffinity(0))
    return processors + max(2, processors // 2)


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.nodeid.startswith(("tests/cli/", "tests/namespaces/")):  # for each of 12,000
        item.add_marker("program")


@pytest.hookimpl(trylast=True)  # of those that are left
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have workers begin with what waits: as many as leave one for each processor, at least half.

    `--dist worksteal` gives each worker a part of the list, the parts being equally long.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    waiting = [item for item in items if item.get_closest_marker("waits")]
    if workers < 2 or not waiting:
        return
    rest = [item for item in items if not item.get_closest_marker("waits")]
    begins = max(workers // 2, workers - len(os.sched_getaffinity(0)))
    for number in range(begins):
        start = number * (len(items) // workers)
        rest[start:start] = waiting[number::begins]
    items[:] = rest


def compile_once() -> None:
    """Have Jinja compile a text once for all sites that tests load: they share roles' defaults.

    Code knows neither its file nor its site; Ansible looks both up when it renders. A text with
    backslashes is left to Ansible, which compiles it in two ways.
    """
    compile_text, kept = Environment.compile, {}

    def of_text(self, source, *given, **options):
        if given or options or not isinstance(source, str) or "\\" in source:
            return compile_text(self, source, *given, **options)
        key = (type(self), self.lexer, source)  # a lexer for each set of delimiters
        if key not in kept:
            kept[key] = compile_text(self, source)
        return kept[key]

    Environment.compile = of_text  # type: ignore[method-assign]


def keep_work() -> None:
    """Have all processes that tests start share what none need do again: helpers/kept says what."""
    sources = sorted((ROOT / "plugins").rglob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    kept = ROOT / ".pytest_cache" / "kept"
    for path in kept.glob("*"):
        if path.name != digest:
            shutil.rmtree(path, ignore_errors=True)
    os.environ["RDMAPROV_TESTS_KEPT"] = str(kept / digest)
    given = os.environ.get("PYTHONPATH", "").split(":")
    paths = [str(ROOT / "tests/unit/helpers/kept"), *filter(None, given)]
    os.environ["PYTHONPATH"] = ":".join(dict.fromkeys(paths))


def pytest_configure(config) -> None:
    compile_once()
    keep_work()
    if not hasattr(config, "workerinput"):
        os.environ[LABS] = tempfile.mkdtemp(prefix="rdmaprov-labs-")
    # A shell starts what it puts in the background with SIGINT ignored, nohup with SIGHUP, and
    # children inherit that: a test that interrupts would then wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def at_large():
    """Provide what writes down a lab's directory, so that no machine of it outlives the run."""

    def remember(directory):
        (Path(os.environ[LABS]) / str(uuid.uuid4())).write_text(str(directory))

    return remember


@pytest.fixture(scope="module")
def cluster(request):
    """Provide a Slurm of its own for a module, of its NAMES."""
    with running_cluster(getattr(request.module, "NAMES", ("n1", "n2"))) as made:
        yield made


def pytest_unconfigure(config) -> None:
    """End the labs that an interrupt left: xdist gives its workers ten seconds to do so."""
    if hasattr(config, "workerinput"):
        return
    labs = Path(os.environ.pop(LABS))
    for lab in labs.iterdir():
        directory = Path(lab.read_text())
        if directory.exists():
            end = [sys.executable, "-m", "tests.lab.handle", str(directory)]
            subprocess.run(end, cwd=ROOT, timeout=END_LAB_S, check=False)
    shutil.rmtree(labs)


def pytest_xdist_make_scheduler(config, log):
    """Give `--dist loadscope` whole files to one worker, and all of PROVISIONED to the same."""
    return Lanes(config, log) if config.getvalue("dist") == "loadscope" else None


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid):
        path = Path(nodeid.partition("::")[0])
        if path.stem == "test_mutants":
            return nodeid  # minutes in all, and each stands alone
        is_provisioned = path.parent == Path("tests/lab") and path.stem in PROVISIONED
        return "provisioned" if is_provisioned else str(path)
