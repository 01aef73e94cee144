"""Puts the corpora, which live beside the package in the source tree, inside it in a wheel."""

from pathlib import Path
from shutil import copytree, ignore_patterns

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithCorpora(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "proveout", "corpora")
            source = Path(__file__).parent / "corpora"
            copytree(source, target, dirs_exist_ok=True, ignore=ignore_patterns("__pycache__"))


setup(cmdclass={"build_py": BuildWithCorpora})
