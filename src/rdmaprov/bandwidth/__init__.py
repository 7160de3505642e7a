"""What an all-reduce can move over a fabric, what it must, and what a slow one points to."""
