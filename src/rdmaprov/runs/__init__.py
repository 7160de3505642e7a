"""A run of any verb: its directory, what it hides, what it shows, what its results begin with."""
