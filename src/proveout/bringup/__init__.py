"""From a script to a folder that a person can read: the twelve stages of bringing a model up, one file each."""

from proveout.bringup.flow import STAGES, bring_up
from proveout.bringup.stage import Asked, Folder, Found, Outcome

__all__ = ["STAGES", "Asked", "Folder", "Found", "Outcome", "bring_up"]
