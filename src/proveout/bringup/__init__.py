"""From a script to a folder that a person can read: the stages of bringing a model up, one file each."""

from proveout.bringup.flow import STAGES, bring_up, find_stage, warm_server
from proveout.bringup.stage import MARKS, BringupJob, Folder, StageRecord, StageResult

__all__ = [
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
