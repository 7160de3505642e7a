"""The acceptance certificate: an in-toto statement of what a passed gate measured, and where."""
