"""Puts the corpora, which live beside the package in the source tree, inside it in a wheel; and beside it the line that
keeps a user's own imports whole: our extras bring PyPI's torchvision, whose import fails beside a CPU torch."""

from pathlib import Path
from shutil import copy, copytree, ignore_patterns

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithCorpora(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "proveout", "corpora")
            source = Path(__file__).parent / "corpora"
            copytree(source, target, dirs_exist_ok=True, ignore=ignore_patterns("__pycache__"))
            copy(Path(__file__).parent / "src" / "proveout_vision.pth", self.build_lib)


setup(cmdclass={"build_py": BuildWithCorpora})
