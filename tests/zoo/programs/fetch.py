"""Fetch a model from the Hugging Face hub, then check that it loads."""

from __future__ import annotations

import argparse
import os

from huggingface_hub import snapshot_download

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    args = parser.parse_args()
    rank = int(os.environ.get("RANK", "0"))
    print(f"[rank {rank}] downloading {args.model}", flush=True)
    print(snapshot_download(args.model, revision="main"), flush=True)
