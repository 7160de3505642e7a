"""Programs that run on nodes; they import nothing but rdmaprov.node, which is sent along."""
