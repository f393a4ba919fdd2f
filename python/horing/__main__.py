"""python -m horing: where this installation's files are."""

from __future__ import annotations

import argparse

import horing


def main() -> None:
    """Prints what the one option asks for. Ends the program where the arguments are wrong."""
    parser = argparse.ArgumentParser(prog="python -m horing", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--plugin-path",
        action="store_true",
        help="for NCCL_ENV_PLUGIN, or NCCL_NET_PLUGIN and NCCL_TUNER_PLUGIN",
    )
    what.add_argument("--library-path", action="store_true", help="libhoring")
    what.add_argument("--version", action="store_true", help="of libhoring")
    chosen = parser.parse_args()
    if chosen.plugin_path:
        print(horing.nccl_plugin_path())
    elif chosen.library_path:
        print(horing.library_path())
    else:
        print(horing.version())


if __name__ == "__main__":
    main()
