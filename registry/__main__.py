"""`python -m registry` is the command `registry`."""

import sys

from registry.cli.root import main

if __name__ == "__main__":
    sys.exit(main())
