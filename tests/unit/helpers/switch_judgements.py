"""Right switches of three systems to alter, and the levels of what is found."""

from __future__ import annotations

from tests.unit.helpers.switch_answers import EOS_MAP, SavedAnswers

from rdmaprov.switches.problem import NOTE, UNKNOWN, WRONG

__all__ = ["NOTE", "UNKNOWN", "WRONG"]
SWP16 = {"swp16": {"link": {"mtu": 9216, "speed": "400G", "oper-status": "up"}}}
MAP = ("qos profile", f"{EOS_MAP}qos profile")


def right_switch(place, system):
    """Return the answers of a switch of this system, on which all is right."""
    if system == "sonic":
        return SavedAnswers(place, "sonic-z9664f")
    if system == "cumulus":
        return SavedAnswers(place, "cumulus-roce").write("nv_show_interface.json", SWP16)
    return SavedAnswers(place, "arista-7388").alter(MAP)
