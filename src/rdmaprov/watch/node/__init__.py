"""What runs on a node while it is watched; it needs Python only."""
