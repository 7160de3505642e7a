"""The search for a fault by group testing: pure, it only plans which groups to test next."""
