"""What a record has of a site: its node's own variables, rendered and without secrets."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rdmaprov.inventory import Node
from rdmaprov.inventory.schema import load_shipped

GROUP = "recorded"


def variables_of(node: Node) -> dict[str, Any]:
    """Return the variables of roles that the site sets for a node, with their values."""
    chosen = {name: node.values[name] for name in sorted(node.written & node.values.keys())}
    plain: dict[str, Any] = json.loads(json.dumps(chosen))
    return plain


def unknown_variables(variables: Mapping[str, Any]) -> list[str]:
    """Return the names that are no variables of roles: Ansible may act on others."""
    return sorted(variables.keys() - load_shipped().variables.keys())


@contextmanager
def written_site(node: str, variables: Mapping[str, Any]) -> Iterator[Path]:
    """Provide a site of one node with these variables; remove it at the end.

    Args:
        node: its name, for which a file of that name would not be safe to make.
    """
    with tempfile.TemporaryDirectory(prefix="rdmaprov-record-") as directory:
        site = Path(directory, "site")
        site.mkdir()
        hosts = {GROUP: {"hosts": {node: dict(variables)}}}
        # JSON is YAML, and needs no quotes of ours.
        (site / "hosts.yml").write_text(f"---\n{json.dumps(hosts, indent=1)}\n", encoding="ascii")
        yield site
