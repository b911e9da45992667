"""Write the shards that the programs read: ``prepare.py FOLDER [RECORDS]``."""

from __future__ import annotations

import sys
from pathlib import Path

from data import write_shards

if __name__ == "__main__":
    write_shards(Path(sys.argv[1]), 8, int(sys.argv[2]) if len(sys.argv) > 2 else 256)
