"""What pytest needs for the suites of the Python packages (pyproject.toml says which)."""

import pytest

SKIPPED = 77  # as tools/test and meson have it


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="all shapes and combinations, not those of the usual run")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where all tests were skipped, says so to whoever reads the status alone."""
    stats = session.config.pluginmanager.get_plugin("terminalreporter").stats
    if exitstatus == 0 and stats.get("skipped") and not stats.get("passed"):
        session.exitstatus = SKIPPED
