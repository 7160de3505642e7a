"""Runs one rank: torchrun ... agent.pyz PLAN."""

import sys
from pathlib import Path

from agent.main import main  # type: ignore[import-not-found] # in the archive

sys.exit(main(Path(sys.argv[1])))
