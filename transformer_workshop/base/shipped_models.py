"""Which models come with the project, and where are they?"""

from __future__ import annotations

from pathlib import Path

DEFAULT_MODEL = "models/multi30k-2026"
CAPTIONS_MODEL = "models/captions"
REPOSITORY_MODELS = ("multi30k", "multi30k-2026")  # too large to be installed by pip
INSTALLED_MODEL = "annotated_transformer_captions"  # pip's copy of CAPTIONS_MODEL


def model_folder(name: str | Path) -> Path:
    """Return the folder with this path or, if there is none, our model of this name."""
    folder = Path(name)
    if not folder.exists() and len(folder.parts) == 1:
        return our_models().get(folder.name, folder)
    return folder


def our_models() -> dict[str, Path]:
    """Return the folders of the models that come with the project, by name."""
    home = Path(__file__).resolve().parents[2]
    ours = {path.name: path for path in sorted((home / "models").glob("*/"))}
    if (installed := home / INSTALLED_MODEL).is_dir():
        ours["captions"] = installed
    return ours


def default_model() -> Path:
    """Return the folder of the model to use if none is named.

    It is the repository's best model or, if the module was installed without the
    repository, the captions model that was installed with it.
    """
    home = Path(__file__).resolve().parents[2]
    installed = home / INSTALLED_MODEL
    return installed if installed.is_dir() else home / DEFAULT_MODEL
