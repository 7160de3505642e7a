"""The counters of a fleet's rails, read each second beside whatever runs, and what they show."""
