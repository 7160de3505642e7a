"""What a measurement is judged by: the floor, its sum, and the proof that it was RDMA."""
