"""The acceptance gate: what nodes together move over the fabric, against what they must."""
