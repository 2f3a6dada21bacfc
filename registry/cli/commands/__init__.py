"""A module a command: `add_arguments(parser)` and `run(typed) -> exit code` (registry/cli/root.py)."""
