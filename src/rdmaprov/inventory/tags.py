"""What Ansible's tags say of a value: where it was written, whether it is a template.

ansible-core 2.19 tags each value that it reads with its Origin, and templates a string only when it
comes from a trusted source. Neither import reads a configuration or finds a plugin. The names in
`ansible._internal` are not promised to stay; a new ansible-core is tried by running this project's
tests.
"""

from ansible._internal._datatag._tags import Origin, TrustedAsTemplate

from rdmaprov.problem import Position

_MARKS = ("{{", "{%", "{#")


def position_of(value: object) -> Position | None:
    """Return where a value was written; None for true, false, and values from no file."""
    return origin_position(Origin.get_tag(value))


def origin_position(origin: Origin | None) -> Position | None:
    """Return an origin as a position; None if it is no file."""
    if origin is None or not origin.path:
        return None
    return Position(str(origin.path), origin.line_num or 1, origin.col_num or 1)


def is_template(value: object) -> bool:
    """Return whether Ansible would template this value."""
    return (
        isinstance(value, str)
        and "{" in value
        and TrustedAsTemplate.is_tagged_on(value)
        and any(mark in value for mark in _MARKS)
    )
