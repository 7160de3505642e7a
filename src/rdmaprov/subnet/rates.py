"""The rates of InfiniBand links by name."""

from __future__ import annotations

# Gb/s of one lane, as links are named (InfiniBand Architecture 1.7, table 254 and annex A18).
LANE_GBPS = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.0,
    "FDR": 14.0,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}


def lane_gbps(speed: str) -> float:
    """Return the rate of one lane, in Gb/s; 0 if the name is unknown."""
    return LANE_GBPS.get(speed.strip().upper(), 0.0)
