"""`rdmaprov plan` and `rdmaprov apply`: Ansible's events → results → text and files."""
