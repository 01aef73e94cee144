"""A build's stages, and sequences of them."""

from __future__ import annotations

import abc
import contextlib
import time
from collections.abc import Sequence as Several

from proveout.compat.onnxflow.build import State, Status, output_dir
from proveout.compat.onnxflow.exceptions import StageError


class Stage(abc.ABC):
    """One step from a model to another form of it; a user's own overrides `fire`."""

    def __init__(self, unique_name: str, monitor_message: str) -> None:
        if not unique_name.replace("_", "a").isalnum():
            raise ValueError(f"a stage's unique_name is letters, digits and underscores, not {unique_name!r}.")
        self.unique_name = unique_name
        self.monitor_message = monitor_message

    @abc.abstractmethod
    def fire(self, state: State) -> State:
        """Do it; give the state back."""

    def names(self) -> list[str]:
        return [self.unique_name]

    def launch(self, state: State) -> State:
        """Fire with what it prints in a log of its own, and note how it went."""
        folder = output_dir(state.cache_dir, state.config.build_name)
        folder.mkdir(parents=True, exist_ok=True)
        state.build_status = Status.BUILD_RUNNING
        started = time.perf_counter()
        try:
            with (folder / f"log_{self.unique_name}.txt").open("w") as log, contextlib.redirect_stdout(log):
                state = self.fire(state)
        except Exception as error:
            state.build_status = Status.FAILED_BUILD
            state.save()
            if isinstance(error, StageError):
                raise
            raise StageError(f"stage {self.unique_name}: {type(error).__name__}: {error}") from error
        if state.build_status is Status.BUILD_RUNNING:
            state.build_status = Status.PARTIAL_BUILD
        state.info.completed_build_stages.append(self.unique_name)
        state.info.build_stage_execution_times[self.unique_name] = time.perf_counter() - started
        state.save()
        return state


class Sequence(Stage):
    """Stages in their order; a sequence may hold others."""

    def __init__(
        self,
        unique_name: str,
        monitor_message: str,
        stages: Several[Stage],
        enable_model_validation: bool = False,
    ) -> None:
        super().__init__(unique_name, monitor_message)
        self.stages = list(stages)
        self.enable_model_validation = enable_model_validation

    def names(self) -> list[str]:
        return [name for stage in self.stages for name in stage.names()]

    def fire(self, state: State) -> State:
        for stage in self.stages:
            state = stage.launch(state)
        return state

    def launch(self, state: State) -> State:
        state.info.all_build_stages = state.info.all_build_stages or self.names()
        return self.fire(state)


__all__ = ["Sequence", "Stage"]
