"""A run's results.json, and the page that is made of it."""
