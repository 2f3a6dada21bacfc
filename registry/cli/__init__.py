"""The command `registry`. Each command imports what it needs when it runs, which keeps `registry --help` fast."""
