"""`python -m tests.simulation`: see `command`."""

import os
import sys

from tests.simulation.command import main

if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # a history depends on the order of sets
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    sys.exit(main())
