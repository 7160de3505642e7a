"""What the role fabric does on a node: rails that fit, their addresses, ARP and routes."""
