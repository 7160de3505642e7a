"""What proves and times all-reduces on the nodes; needs torch and nothing else there."""
