"""What all of CEL shares: types, run-time values and their equality, times, names of properties."""
