"""Run the command line by `python -m lakescan`."""

from lakescan.cli import main

if __name__ == "__main__":
    main()
