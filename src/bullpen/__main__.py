"""`python -m bullpen`: the command line."""

import sys

from bullpen.cli import main

if __name__ == "__main__":
    sys.exit(main())
