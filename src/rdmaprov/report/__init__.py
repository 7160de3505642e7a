"""Read a run's results.json and write its report page."""
