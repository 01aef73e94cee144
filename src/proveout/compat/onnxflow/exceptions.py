"""What a build raises."""

from __future__ import annotations

from proveout.errors import CompileError, UsageError


class ArgError(UsageError):
    """An argument that cannot be right."""


class StageError(CompileError):
    """A stage that cannot go on."""


Error = ArgError
IntakeError = ArgError
"""A model or inputs that no stage takes."""

__all__ = ["ArgError", "Error", "IntakeError", "StageError"]
