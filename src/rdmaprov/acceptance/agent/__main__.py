"""Runs the ranks of a node: agent.pyz PLAN; one of them: agent.pyz PLAN and its number."""

import sys
from pathlib import Path

from agent.main import main  # type: ignore[import-not-found] # in the archive
from agent.starter import run_ranks  # type: ignore[import-not-found]

plan, *rank = sys.argv[1:]
sys.exit(main(Path(plan)) if rank else run_ranks(Path(plan), [sys.executable, *sys.argv]))
