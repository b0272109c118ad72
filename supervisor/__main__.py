"""``python -m supervisor``."""

import sys

from supervisor.main import main

if __name__ == "__main__":
    sys.exit(main())
