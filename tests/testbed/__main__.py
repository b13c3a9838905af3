"""The testbed by hand: `python -m tests.testbed VERB`, as root, from the repository's root."""

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from tests.testbed import packages
from tests.testbed.cluster import Cluster
from tests.testbed.processes import NotReady
from tests.testbed.settings import Settings
from tests.testbed.slots import port_of, root_of

ON_CLUSTER: dict[str, Callable[[Cluster], None]] = {
    "down": Cluster.down,
    "clean": Cluster.clean,
    "ctld-kill": Cluster.kill_controller,
    "ctld-start": Cluster.start_controller,
    "login-kill": Cluster.kill_login,
    "login-start": Cluster.start_login,
}
ON_NODE: dict[str, Callable[[Cluster, str], None]] = {
    "node-kill": Cluster.kill_node,
    "node-start": Cluster.start_node,
    "node-freeze": Cluster.freeze_node,
    "node-thaw": Cluster.thaw_node,
    "slurmd-kill": Cluster.kill_slurmd,
    "slurmd-start": Cluster.start_slurmd,
}


def main() -> int:
    """Do one verb."""
    asked = _arguments()
    if asked.verb == "install":
        return _install(asked.accounting)
    if why := packages.hindrance():
        print(f"the Slurm testbed: {why}", file=sys.stderr)
        return 2
    try:
        return _do(asked)
    except NotReady as error:
        print(error, file=sys.stderr)
        return 1


def _do(asked: argparse.Namespace) -> int:
    if asked.verb == "up":
        Cluster(Settings(asked.root, asked.port, asked.nodes, asked.accounting, asked.login)).up()
        return 0
    if not (asked.root / "settings.json").exists():
        print(f"no cluster in {asked.root}; start one with `python -m tests.testbed up`", file=sys.stderr)
        return 2
    _act(asked, Cluster.at(asked.root))
    return 0


def _act(asked: argparse.Namespace, cluster: Cluster) -> None:
    if asked.verb == "env":
        for name, value in cluster.exports.items():
            print(f"export {name}={shlex.quote(value)}")
    elif asked.verb == "node-exec":
        print(cluster.exec(asked.node, asked.command), end="")
    elif asked.verb == "kernel":
        cluster.kernel_line(asked.node, " ".join(asked.command))
    elif asked.verb in ON_NODE:
        ON_NODE[asked.verb](cluster, asked.node)
    else:
        ON_CLUSTER[asked.verb](cluster)


def _install(accounting: bool) -> int:
    wanted = (*packages.SLURM, *packages.TORCH, *(packages.ACCOUNTING if accounting else ()))
    if why := packages.ensure(wanted):
        print(why, file=sys.stderr)
        return 2
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.testbed", description=__doc__)
    parser.add_argument("--root", type=Path, default=root_of(0), help="folder of the cluster")
    parser.add_argument("--port", type=int, default=port_of(0), help="first of 100 ports")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("install", "up"):
        command = verbs.add_parser(verb)
        command.add_argument("--accounting", action="store_true", help="with MariaDB and slurmdbd")
        if verb == "up":
            command.add_argument("nodes", type=int, nargs="?", default=6)
            command.add_argument("--login", action="store_true", help="with an sshd as login node")
    for verb in ("env", *ON_CLUSTER):
        verbs.add_parser(verb)
    for verb in ON_NODE:
        verbs.add_parser(verb).add_argument("node")
    for verb in ("node-exec", "kernel"):
        command = verbs.add_parser(verb)
        command.add_argument("node")
        command.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
