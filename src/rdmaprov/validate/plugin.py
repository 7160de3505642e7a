"""pytest's options, fixtures and markers that verify a fleet's nodes against their site.

    pytest validate/ --hosts=all --inventory=inventory/prod

A test that asks for `rail` runs for each rail of each node, one that asks for `node` or `host` for
each node, any other one once; `fleet` and `hosts` are all selected nodes.

What nobody needs any more is given back: a check once it ran, its report once everybody heard of
it. pytest keeps both.
"""

import gc
import inspect
from collections.abc import Callable, Generator
from typing import Any

import pytest

from rdmaprov.errors import RdmaprovError
from rdmaprov.validate import fixtures, items, options, outcome
from rdmaprov.validate.check import Check
from rdmaprov.validate.fixtures import SELECTION
from rdmaprov.validate.items import node_by_node, target_of
from rdmaprov.validate.progress import Progress

# Stands for each report that the terminal need not keep: plugins look into all of its reports.
_FORGOTTEN = pytest.TestReport("", ("", None, ""), {}, "passed", None, "call")


def run(check: Check, next_item: pytest.Item | None) -> None:
    """Run a check and have everybody hear of it, as pytest does with an item."""
    hook = check.ihook
    hook.pytest_runtest_logstart(nodeid=check.nodeid, location=check.location)
    hook.pytest_runtest_logreport(report=check.make_report())
    hook.pytest_runtest_logfinish(nodeid=check.nodeid, location=check.location)
    _tear_down(check, next_item)


def _tear_down(check: Check, next_item: pytest.Item | None) -> None:
    """Tear down what a function of pytest's own has set up before, such as its module."""
    state = check.session._setupstate
    if state.stack:
        state.teardown_exact(next_item)


def run_many(session: pytest.Session) -> None:
    """Run a session's items; of a check, only its report is passed on.

    What else pytest does around each item (its warnings, its log, its progress) costs more than
    the check.
    """
    forgotten = _forgotten(session.config)
    plugins = session.config.pluginmanager
    if plugins.has_plugin("nfplugin") and not session.config.option.newfirst:
        plugin = plugins.unregister(name="nfplugin")  # it would record each name
        getattr(plugin, "cached_nodeids", set()).clear()  # pytest holds on to it
    if plugins.has_plugin("subtests") and all(isinstance(each, Check) for each in session.items):
        # It keeps each check's id, in case it had subtests, which only pytest's own items have.
        plugins.unregister(name="subtests")
    waiting = session.items[::-1]
    session.items.clear()
    while waiting:
        item = waiting.pop()
        following = waiting[-1] if waiting else None
        if isinstance(item, Check):
            _report(item, forgotten)
            _tear_down(item, following)
        else:
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)


def _forgotten(config: pytest.Config) -> dict[str, list[object]]:
    """Return the terminal's lists of reports, if nothing that it will print needs these."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or config.option.tbstyle != "auto" or "p" in terminal.reportchars.lower():
        return {}
    lists: dict[str, list[object]] = terminal.stats
    return lists


def _report(check: Check, forgotten: dict[str, list[object]]) -> None:
    """Run a check and pass on its report, which the terminal then need not keep."""
    report = check.make_report()
    check.config.hook.pytest_runtest_logreport(report=report)
    for kept in forgotten.values():
        if kept and kept[-1] is report:
            kept[-1] = _FORGOTTEN  # it still counts


# Our choice: what a run makes stays to its end or goes with its last reference, so the collector
# finds next to nothing; at Python's own 700 objects it took a third of a run's processor time.
# This many are about 2 MB.
_NEW_OBJECTS = 10_000


def collect_rarely() -> Callable[[], None]:
    """Leave out what is there, and collect rarely; return what undoes both."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])

    def undo() -> None:
        gc.unfreeze()
        gc.set_threshold(*before)

    return undo


MARKERS = {
    "state": "settings: configured on disk, running now, after a reboot",
    "links": "ports: state, rate, PCIe link, errors",
    items.LIVE: "traffic between nodes; commands of these tests always run again",
    "acceptance": "collectives over the fabric, with their bandwidth; runs only on request",
}
# More nodes are a large fleet: pytest's own time for 60 checks on each of 16 is that of its start.
_MANY = 16


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what testinfra's own options lack; --hosts is testinfra's."""
    options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; from here on, the garbage collector has little to do."""
    config.add_cleanup(collect_rarely())
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Load the site first: an invalid one ends the run with one line."""
    config = session.config
    if config.getoption("showfixtures") or config.getoption("show_fixtures_per_test"):
        return
    if config.pluginmanager.hasplugin("dsession"):
        message = "-n is gone: all nodes are asked at the same time already. Leave it out"
        raise pytest.UsageError(message)
    try:
        selection = config.stash[SELECTION] = options.load_selection(config)
    except RdmaprovError as error:
        raise pytest.UsageError(f"{error.message}. {error.hint}") from error
    if not options.is_preloaded(config):
        from rdmaprov.validate.plain import keep_results  # which imports what runs pytest

        keep_results(session, selection)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Hide what there is from pytest, which collects twice to find what was not closed."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Register the fixtures, after all others, and the progress line."""
    config = session.config
    config.pluginmanager.register(fixtures, "rdmaprov-fixtures")
    selection = config.stash.get(SELECTION, None)
    if selection is not None:
        names = [node.name for node in selection.fleet.nodes]
        moves, grouped = _may_move(config), _is_grouped(config)
        shown = Progress(config, moves=moves, grouped=grouped, nodes=names)
        config.pluginmanager.register(shown, "rdmaprov-progress")
        _leave_checks_in_order(session)


def _leave_checks_in_order(session: pytest.Session) -> None:
    """Keep pytest from sorting checks by parametrized fixtures, which they have none of.

    Each item is looked up a dozen times for that: a sixth of what pytest costs for a node.
    """
    manager: Any = session._fixturemanager
    hooks = session.config.hook.pytest_collection_modifyitems.get_hookimpls()
    hook: Any = next(each for each in hooks if each.plugin is manager)
    sort = hook.function

    def sort_others(items: list[pytest.Item]) -> None:
        if not all(isinstance(each, Check) for each in items):
            sort(items)

    hook.function = sort_others


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Close the connections."""
    selection = session.config.stash.get(SELECTION, None)
    if selection is not None and selection.probe is not None:
        selection.probe.close()


def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> list[Check] | None:
    """Make checks of the tests that ask for nodes and hosts alone."""
    selection = collector.config.stash.get(SELECTION, None)
    if selection is None or not inspect.isfunction(obj) or not isinstance(collector, pytest.Module):
        return None
    is_test = collector.istestfunction(obj, name)
    return items.make_checks(collector, name, obj, selection) if is_test else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a function of pytest's own for each rail or each node."""
    selection = metafunc.config.stash.get(SELECTION, None)
    if "_target" not in metafunc.fixturenames or selection is None:
        return
    found = items.targets(frozenset(metafunc.fixturenames), selection)
    metafunc.parametrize("_target", found, ids=[target.id for target in found], indirect=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by node: the commands of the first are then fetched from all others at once."""
    items[:] = list(node_by_node(items))
    for item in items:
        if not isinstance(item, Check) and (target := target_of(item)) is not None:
            item.user_properties += target.properties


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the checks of a large fleet in a loop that is faster than pytest's."""
    gc.freeze()  # the items too
    config = session.config
    if not _is_large(config) or session.testsfailed or config.option.collectonly:
        return None
    run_many(session)
    return True


def _may_move(config: pytest.Config) -> bool:
    """Return whether a moving line may be shown: no option asks for other output."""
    plain = config.get_verbosity() == 0 and not config.getoption("usepdb")
    return plain and config.getoption("capture") != "no"


def _is_grouped(config: pytest.Config) -> bool:
    """Return whether equal results of several nodes are printed once; -v prints each."""
    plain = config.get_verbosity() < 1 and not config.getoption("usepdb")
    return plain and config.getoption("tbstyle") == "auto"


def _is_large(config: pytest.Config) -> bool:
    """Return whether the fleet is so large that pytest takes longer than the nodes."""
    selection = config.stash.get(SELECTION, None)
    if selection is None or len(selection.fleet.nodes) <= _MANY:
        return False
    return config.get_verbosity() < 1 and not config.getoption("usepdb")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a check; pytest runs everything else."""
    if isinstance(item, Check):
        run(item, nextitem)
        return True
    selection = item.config.stash.get(SELECTION, None)
    if selection is not None and selection.probe is not None:
        selection.probe.live = item.get_closest_marker(items.LIVE) is not None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make exceptions other than assertions errors in functions of pytest's own too."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and not hasattr(report, "wasxfail"):
        file, line, _ = item.location  # and not the place in pytest that raises
        report.longrepr = (file, (line or 0) + 1, report.longrepr[2])
    if "_target" in getattr(item, "fixturenames", ()) or "_selection" in getattr(
        item, "fixturenames", ()
    ):
        if report.failed and call.excinfo is not None and outcome.wants_one_line(item.config):
            report.longrepr = outcome.one_line(call.excinfo)
        outcome.classify(report, call.excinfo)
    return report


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return the line that names the site and the number of nodes."""
    selection: Any = config.stash.get(SELECTION, None)
    if selection is None:
        return []
    nodes = len(selection.fleet.nodes)
    return [f"site: {selection.fleet.site}, nodes: {nodes}", *config.stash.get(options.WAIVED, [])]
