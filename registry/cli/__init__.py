"""The command `registry`. Each command imports what it needs when it runs: `registry --help` stays quick."""
