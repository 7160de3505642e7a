"""Find the nodes that differ from the site: the roles' survey, over the probe's connections."""
