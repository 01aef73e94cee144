"""From a script to a folder that a person can read: the twelve stages of bringing a model up, one file each."""

from proveout.bringup.flow import STAGES, bring_up, find_stage
from proveout.bringup.stage import MARKS, Asked, Folder, Found, Outcome

__all__ = ["MARKS", "STAGES", "Asked", "Folder", "Found", "Outcome", "bring_up", "find_stage"]
