"""What gives nodes to jobs: nodes are taken out of it, proven, and returned to it."""
