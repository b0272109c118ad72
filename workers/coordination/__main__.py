"""``python -m workers.coordination``: started by the supervisor, with its launch in the environment."""

import sys

from termal.store.files import StoreRefused
from termal.worker.process import main
from workers.coordination.worker import start

if __name__ == "__main__":
    sys.exit(main(start, refusals=(StoreRefused,)))
