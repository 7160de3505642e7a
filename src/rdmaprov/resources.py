"""Paths of the files that ship beside the code: the collection, the lab's recipe, sites."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_dir(name: str) -> Path:
    """Return the wheel's or the checkout's directory; raise FileNotFoundError without it."""
    candidates = [
        _PACKAGE / "_data" / name,
        _PACKAGE.parent / "ansible_collections" / "rdmaprov" / "node" / name,
        _PACKAGE.parents[1] / name,
    ]
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(
        f"rdmaprov is not installed completely: {name}/ is missing; searched {candidates}"
    )


def collections_dir() -> str:
    """Return where our collection is; verbs use no other version, such as Galaxy's."""
    return str(_PACKAGE.parent)


def suite_dir() -> Path:
    """Return the directory of the test suite: rdmaprov/suite in a wheel, validate in a checkout.

    Raises:
        FileNotFoundError: there is neither; the installation is incomplete.
    """
    packaged = _PACKAGE / "suite"
    return packaged if packaged.is_dir() else data_dir("validate")
