"""Imports point down only: the layers of the house, enforced."""

from __future__ import annotations

from importlinter.cli import lint_imports


def test_imports_point_down_only():
    assert lint_imports(config_filename="pyproject.toml", cache_dir=None, no_cache=True) == 0
