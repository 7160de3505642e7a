"""What the tests here may ask for: host, node, rail, fleet, hosts. See rdmaprov.validate.plugin."""

pytest_plugins = ["rdmaprov.validate.plugin"]
