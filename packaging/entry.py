"""Where the bundle starts; it stands in for `python -m` too, since there is no interpreter beside it."""

import multiprocessing
import sys

from engine.models.download import WORKER_FLAG


def main() -> int:
    """Run the app, or the part of it that runs as a process of its own."""
    if sys.argv[1:2] == [WORKER_FLAG]:
        from engine.models import download

        return download.main(sys.argv[2:])
    from app import __main__ as app

    return app.main()


if __name__ == "__main__":
    multiprocessing.freeze_support()  # a child process starts this program again
    sys.exit(main())
