"""The product's test suite; see docs/validate.md."""
