"""what smoothing does to confidence, NLL, and decoding"""

from transformer_workshop.exercises.checking import true_sentences


def judge(answer):
    reasons = {
        "a": "which symbol has the highest probability in the smoothed target?",
        "b": "where is the loss zero? Look at the chart of this section.",
        "c": "what tells the other symbols apart? And what does the target say?",
        "d": "the NLL asks for nothing but the probability of the right symbol.",
        "e": "what does the smoothed target say about padding?",
        "f": "the loss is the avoidable part of the surprise. What is left to avoid?",
    }
    true_sentences(
        "2.9", answer, reasons, {"42490b3df0a0", "9f34157b80f5", "a9f3070e127c"}
    )
