"""which policy each reward pays best"""

from transformer_workshop.exercises.checking import true_sentences

REASONS = {
    "a": "no sentence earns more than 1, and this policy earns that each time.",
    "b": "a sentence earns 1 divided by its copies in the group. Of 79 others, how "
    "many are the same, if each is with probability 1 in 10,000?",
    "c": "a single pattern with many words to fill in has more sentences than any "
    "group, and the other patterns aren't missed.",
    "d": "the best p(s) is proportional to the first model's times exp(r(s) / β), "
    "which is the same factor for all possible sentences.",
    "e": "β is what it costs to go away. With a very large one, the first model is "
    "the best policy.",
    "f": "all advantages are zero, and so is the gradient.",
}
TRUE = {"5b0330c5fb02", "4559f5cede09", "f4d631d88882", "88d82bf013b9"}


def judge(letters):
    true_sentences("reward", letters, REASONS, TRUE)
