"""What a node is, read by plain commands over any testinfra host; nothing here changes a node.

Each module has one noun of the field: a command, a pure parser of what it prints, and frozen
values. What is unknown is `CouldNotTell`, never a value.
"""

from rdmaprov.facts.errors import CouldNotTell

__all__ = ["CouldNotTell"]
