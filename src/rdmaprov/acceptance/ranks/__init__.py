"""One job of ranks: its plan, its start on the nodes, what it says, its end."""
