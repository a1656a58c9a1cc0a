"""`python -m popbandits` is `popbandits`."""

import sys

from popbandits.cli import main

if __name__ == "__main__":  # Worker processes import this file again.
    sys.exit(main())
