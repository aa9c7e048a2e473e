"""Where the bundle starts."""

import multiprocessing
import sys

if __name__ == "__main__":
    multiprocessing.freeze_support()  # a child process starts this program again
    from app.__main__ import main

    sys.exit(main())
