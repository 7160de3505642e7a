"""Questions to the nodes of a gate: what is asked, and the shape of each answer."""
