"""Is an answer to an exercise right, and if not, what is wrong with it?

`check("masks", answer)` says so. Each exercise is a file here. The name of the file is
that of the exercise, and stays, whatever its number and chapter; the docstring says
what it tests.
"""

from transformer_workshop.exercises.checking import UNANSWERED, check, complaint

__all__ = ["UNANSWERED", "check", "complaint"]
