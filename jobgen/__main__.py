"""``python -m jobgen``."""

from jobgen.cli.main import main

main()
