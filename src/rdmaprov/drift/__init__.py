"""Which nodes differ from the site, by the roles' own survey over the probe's connection."""
