"""Typical wrong answers to each exercise; each must get a complaint."""

from importlib import import_module

from exercises import files


def wrong_answers() -> dict[str, list]:
    """Return them by the exercises' names."""
    return {name: import_module(f"{__name__}.{name}").WRONG for name in files()}
