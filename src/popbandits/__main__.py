"""`python -m popbandits` is `popbandits`."""

import os
import sys

if __name__ == "__main__":  # Worker processes import this file again.
    if not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]  # Python put the working folder there, which may hold what somebody sent.

    from popbandits.cli import main

    sys.exit(main())
