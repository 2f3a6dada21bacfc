"""Real client libraries, used for operators and scripts, on a started server."""
