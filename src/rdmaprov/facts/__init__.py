"""What a node is, read by plain commands over any testinfra host; nothing here changes a node.

Each module has one noun of the field: a command, a pure parser of what it prints, and frozen
values. What is unknown is `CouldNotTell`, never a value: each function raises that for a program
that is not there or fails, a file that cannot be read, and text that is cut or of another form.
"""

from rdmaprov.facts.errors import CouldNotTell

__all__ = ["CouldNotTell"]
