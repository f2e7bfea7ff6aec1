"""Run the command line as ``python -m worker``."""

from worker.cli import main

if __name__ == "__main__":
    main()
