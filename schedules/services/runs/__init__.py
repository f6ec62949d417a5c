"""Services for runs: start, stop, skip, answer and explain them."""
