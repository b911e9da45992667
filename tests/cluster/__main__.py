"""``python -m tests.cluster up | run | down``: the test cluster by hand."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.cluster import Cluster, Options
from tests.cluster.install import missing
from tests.cluster.layout import USER


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    verbs = top.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="bring a cluster up and leave it running")
    up.add_argument("--dir", type=Path, help="its folder (made anew; a short path)")
    up.add_argument("--accounting", action="store_true", help="with slurmdbd, so sacct answers")
    up.add_argument("--nodes", type=int, default=4)
    run = verbs.add_parser("run", help="run a command on one of its hosts")
    run.add_argument("--dir", type=Path, required=True)
    run.add_argument("--root", action="store_true", help="as root, not as the ordinary user")
    run.add_argument("host", help="client, login, n1, n2…")
    run.add_argument("command", nargs=argparse.REMAINDER)
    down = verbs.add_parser("down", help="end it and remove its folder")
    down.add_argument("--dir", type=Path, required=True)
    return top


def main() -> None:
    args = parser().parse_args()
    if args.verb == "up":
        if reason := missing(accounting=args.accounting):
            sys.exit(reason)
        options = Options(accounting=args.accounting, nodes=args.nodes)
        cluster = Cluster.up(options, root=args.dir, lease=False)
        root = cluster.layout.root
        print(f"{root}\nprofile   {cluster.profile()}")
        print(f"a shell   python -m tests.cluster run --dir {root} login bash")
        print(f"its end   python -m tests.cluster down --dir {root}")
        return
    cluster = Cluster.at(args.dir)
    if args.verb == "down":
        cluster.down()
        return
    words = args.command or ["bash"]
    if args.host == "client":
        os.execvp("nsenter", cluster.client.words(words))  # noqa: S606
    user = "root" if args.root else USER
    os.execvp("nsenter", [*cluster.enter(args.host, user=user), *words])  # noqa: S606


if __name__ == "__main__":
    main()
