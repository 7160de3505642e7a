"""What an all-reduce can move over a fabric, what it must, and what explains a slow one."""
