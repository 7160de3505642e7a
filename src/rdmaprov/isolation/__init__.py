"""The search for a culprit by group testing: pure, it only says which groups to test next."""
