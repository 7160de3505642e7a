"""A node in one file: all that roles and suite read of it. See docs/record.md."""
