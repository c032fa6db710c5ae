"""`python -m lakescan`: the command line."""

from lakescan.cli import main

if __name__ == "__main__":
    main()
