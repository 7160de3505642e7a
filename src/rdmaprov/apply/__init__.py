"""What `rdmaprov plan` and `rdmaprov apply` do: Ansible's events → results → text and files."""
