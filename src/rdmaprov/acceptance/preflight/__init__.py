"""What nodes need before ranks can start, read without any load."""
