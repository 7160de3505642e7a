"""What a vendor's ticket needs of a node, from kept runs: each field with where it comes from."""
