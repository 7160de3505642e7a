"""What a training step asks of a fabric, and the switches that a fabric takes."""
