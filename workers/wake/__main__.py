"""``python -m workers.wake``: started by the supervisor, with its launch in the environment."""

import sys

from termal.worker.process import main
from workers.wake.worker import start

if __name__ == "__main__":
    sys.exit(main(start))
