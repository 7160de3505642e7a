"""`python -m rdmaprov`."""

from rdmaprov.cli import main

if __name__ == "__main__":
    main()
