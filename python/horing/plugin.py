"""Where the NCCL plugin of this installation is."""

from __future__ import annotations

from horing._library import library_path


def nccl_plugin_path() -> str:
    """Where the NCCL plugin of this installation is.

    Returns:
        The value for NCCL_ENV_PLUGIN (NCCL 2.28.7 or later), NCCL_NET_PLUGIN and NCCL_TUNER_PLUGIN:
        one file holds all of them.

    Raises:
        FileNotFoundError: This installation has no plugin.
        ImportError: libhoring was not found.
    """
    path = library_path().parent / "libnccl-net-horing.so"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: this installation has no NCCL plugin")
    return str(path)
