"""pytest's entry point: the suite's options where the suite is named as a package.

    pytest --pyargs rdmaprov.suite --hosts=all --inventory=inventory/prod

pytest reads the options before it looks for a package's conftest.py, which would bring them.
"""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Load the plugin if the suite is asked for, and leave all other runs of pytest alone."""
    if "--pyargs" in args and any(each.startswith("rdmaprov.suite") for each in args):
        early_config.pluginmanager.import_plugin("rdmaprov.validate.plugin")
