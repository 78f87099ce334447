"""The workshop: what one needs to use the model that the textbook teaches.

Its folders are its floors, from the ground up: base, text, models, training, pictures,
lab, exercises, cli. None imports a floor above it. Each file answers one question,
which its first line asks. They import the textbook, annotated_transformer; it looks
here only for the names of the 2022 post, which are in names_of_2022.py, on the roof.
"""

__version__ = "2026.3"
