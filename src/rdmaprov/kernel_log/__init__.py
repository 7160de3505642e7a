"""The kernel's log: which faults its lines tell, and who must do what."""
