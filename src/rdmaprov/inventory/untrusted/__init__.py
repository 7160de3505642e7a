"""A stranger's site: read as data, within limits, without Ansible."""
