"""Real clients against a started server: the libraries that people write operators and scripts with."""
