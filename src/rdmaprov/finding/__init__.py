"""What a verb finds wrong, or cannot tell: kinds, and one of them at a place."""
