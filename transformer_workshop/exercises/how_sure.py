"""what smoothing does to confidence, NLL, and decoding"""

from transformer_workshop.exercises.checking import true_sentences

REASONS = {
    "a": "which symbol has the highest probability in the smoothed target?",
    "b": "where is the loss zero? Look at the chart of this section.",
    "c": "what tells the other symbols apart? And what does the target say?",
    "d": "the NLL asks for nothing but the probability of the right symbol.",
    "e": "what does the smoothed target say about padding?",
    "f": "the loss is the avoidable part of the surprise. What is left to avoid?",
}
TRUE = {"2c1b5cdaa94a", "ce87732380eb", "89cde1d09407"}


def judge(answer):
    true_sentences("how_sure", answer, REASONS, TRUE)
