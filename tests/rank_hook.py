"""A rank whose collectives are not torch's own any more, by Python's own start-up hook."""

from pathlib import Path

from tests.tables import cases

# The body of `change` follows, indented. It may call torch's own by the names that are kept here.
RANK_HOOK = cases(__file__, "rank_hook")
# A rank that waits for ever in Python itself, in its sweep.
HANG = cases(__file__, "hang")
# The ranks of one node are slow: eight times the work for each matrix, without a pause.
SLOW_CPU = cases(__file__, "slow_cpu")


def hooked_python(directory: Path, python: str, source: str) -> Path:
    """Return an interpreter, made in a directory, that runs this source when it starts."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sitecustomize.py").write_text(source)
    hooked = directory / "python"
    hooked.write_text(f'#!/bin/sh\nPYTHONPATH={directory} exec {python} "$@"\n')
    hooked.chmod(0o755)
    return hooked
