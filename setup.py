"""Give what pip installs the types of the textbook; all else is in pyproject.toml.

A package says with py.typed that it has types, which a single file can't (PEP 561). So
the same file is installed a second time, as its own stubs.
"""

from pathlib import Path
from shutil import copy

from setuptools import setup
from setuptools.command.build_py import build_py


class WithStubs(build_py):
    """Build as always, and add the stubs."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            stubs = Path(self.build_lib, "annotated_transformer-stubs")
            stubs.mkdir(parents=True, exist_ok=True)
            copy("annotated_transformer.py", stubs / "__init__.pyi")


setup(cmdclass={"build_py": WithStubs})
