"""The acceptance gate: what a fleet must reach, and which part of it does not."""
