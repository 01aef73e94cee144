"""From a script to a folder that a person can read: the stages of bringing a model up, one file each."""

from proveout.bringup.data import DATA
from proveout.bringup.flow import bring_up, warm_server
from proveout.bringup.stage import MARKS, BringupJob, Folder, StageRecord, StageResult
from proveout.bringup.stages import STAGES, find_stage

__all__ = [
    "DATA",
    "MARKS",
    "STAGES",
    "BringupJob",
    "Folder",
    "StageRecord",
    "StageResult",
    "bring_up",
    "find_stage",
    "warm_server",
]
