"""What runs on a node beside the agent; each file is self-contained, and needs Python only."""
