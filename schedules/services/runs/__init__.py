"""What people and agents do with runs: start, stop, skip, answer and explain them."""
