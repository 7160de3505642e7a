"""No package of src/rdmaprov imports what stands above it; docs/architecture.md has the order."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import rdmaprov

SOURCE = Path(rdmaprov.__file__).parent
TESTS = Path(__file__).parents[2]
ARCHITECTURE = TESTS.parent / "docs/architecture.md"
# Of bench/, which has command lines and prints. What they simulate and judge by is in tests/madeup.
PRINTING = ("main", "table", "row", "last_line")
# The test of the arena's own algorithms: those of other suites, no simulator.
ARENA = "unit/isolation/test_arena.py"
# From the ground up; what stands on one line may import from its left.
ORDER = re.findall(r"```\n(exit_codes .+?)```", ARCHITECTURE.read_text(), re.DOTALL)[0].split()


def modules() -> list[Path]:
    no_layer = (SOURCE / "__init__.py", SOURCE / "__main__.py")
    return sorted(path for path in SOURCE.rglob("*.py") if path not in no_layer)


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(text: str) -> Iterator[str]:
    for name in _names(text):
        first, _, rest = name.partition(".")
        part = rest.partition(".")[0]
        if first == "rdmaprov" and part and not part.startswith("__"):
            yield part


@cache  # to parse all modules takes a second, and three tests ask for them
def _names(text: str) -> tuple[str, ...]:
    """Return all that a module imports: modules, and what is taken of one."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


def upward(layer: str, text: str) -> list[str]:
    allowed = ORDER[: ORDER.index(layer) + 1]
    return [part for part in imported(text) if part not in allowed]


def test_every_package_has_a_layer():
    assert {layer_of(path) for path in modules()} == set(ORDER)


def test_no_module_imports_upwards():
    found = {
        path.relative_to(SOURCE).as_posix(): above
        for path in modules()
        if (above := upward(layer_of(path), path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_validate_alone_imports_pytest():
    found = {
        layer_of(path)
        for path in modules()
        for name in _names(path.read_text(encoding="utf-8"))
        if name.partition(".")[0] in ("pytest", "_pytest")
    }
    assert found == {"validate"}


def _modules_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def simulators(text: str) -> list[str]:
    if "bench" not in text:  # to parse all tests takes seconds
        return []
    found = []
    for node in ast.walk(ast.parse(text)):
        modules = [name for name in _modules_of(node) if name.partition(".")[0] == "bench"]
        if isinstance(node, ast.ImportFrom) and modules != ["bench"]:
            names = [alias.name for alias in node.names if alias.name not in PRINTING]
            modules = [f"{module}.{name}" for module in modules for name in names]
        found += modules
    return found


def test_tests_import_no_simulator_from_bench():
    found = {
        path.relative_to(TESTS).as_posix(): names
        for path in set(TESTS.rglob("*.py")) - {TESTS / ARENA}
        if (names := simulators(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_made_up_fleets_import_nothing_of_bench():
    for path in (TESTS / "madeup").rglob("*.py"):
        names = {
            name for node in ast.walk(ast.parse(path.read_text())) for name in _modules_of(node)
        }
        assert not any(name.partition(".")[0] == "bench" for name in names), path


@pytest.mark.parametrize(
    "text", ["import bench.tune", "from bench import tune", "from bench.tune import main, CASES"]
)
def test_a_simulator_from_bench_is_found(text):
    assert simulators(text)
    assert not simulators("from bench.tune import main, table")


def test_lab_stands_beside_the_others():
    """The lab is known to the command line alone, and needs nothing of a site's."""
    ground = set(ORDER[: ORDER.index("terminal") + 1]) | {"lab"}
    for path in modules():
        parts = set(imported(path.read_text(encoding="utf-8")))
        if layer_of(path) == "lab":
            assert parts <= ground, path
        elif layer_of(path) != "cli":
            assert "lab" not in parts, path


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        ("runs", "from rdmaprov.report.write import write_page"),
        ("runs", "def later():\n    from rdmaprov import report"),
        ("contract", "import rdmaprov.acceptance.floor"),
    ],
)
def test_an_import_upwards_is_found(layer, text):
    assert upward(layer, text)
