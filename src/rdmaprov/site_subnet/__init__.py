"""The InfiniBand subnet of a site: read from its nodes, joined with the plan of the site."""
