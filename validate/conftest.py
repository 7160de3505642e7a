"""What the tests here may ask for: host, node, rail, fleet, hosts. See rdmaprov.validate.plugin."""

import pytest

pytest_plugins = ["rdmaprov.validate.plugin"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the acceptance out unless it is asked for: it takes the fabric for minutes."""
    words = [config.option.markexpr, config.option.keyword, *config.args]
    if any("acceptance" in word for word in words):
        return
    left_out = [item for item in items if item.get_closest_marker("acceptance")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
