"""Shared by all of CEL: types, run-time values and their equality, times, escaping of property names."""
