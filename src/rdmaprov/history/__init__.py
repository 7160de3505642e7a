"""What the runs of a site say together: how it changed over time, and between two runs."""
