"""How many examples a property is tried with that costs much, or needs many."""

from hypothesis import settings


def examples(whole: int, in_check: int) -> int:
    """Return the number of examples: all of them, or what `make check` has time for."""
    return in_check if settings.get_current_profile_name() == "check" else whole
