"""what smoothing does to confidence, NLL, and decoding"""

import torch
from torch import nn

import annotated_transformer as at
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


def found_probable(model: nn.Module, ids: torch.Tensor) -> list[float]:
    """Return a copier's mean probabilities: of the right id, a wrong one, padding."""
    src, tgt, mask = ids[:, 1:-1], ids[:, :-1], torch.ones(1, 1, 10, dtype=torch.bool)
    with at.in_mode(model, training=False):
        out = model(src, tgt, mask, at.subsequent_mask(11))
        p = model.generator(out).exp().flatten(0, 1)
    right = p.gather(1, ids[:, 1:].flatten().unsqueeze(1)).mean().item()
    padding = p[:, 2].mean().item()
    return [right, (1 - right - padding) / 11, padding]


def judge(answer):
    assert isinstance(answer, tuple | list) and len(answer) == 3, (
        "three things are needed: the letters, the model without smoothing, and the "
        "one with it. Hint: train both before you decide whether you were right."
    )
    letters, *models = answer
    symbols = torch.randint(3, 13, (200, 10))
    ends = torch.zeros(200, 1).long(), torch.ones(200, 1).long()
    ids = torch.cat([ends[0], symbols, ends[1]], dim=1)
    names = "the model without smoothing", "the model with smoothing"
    least_and_most = (0.8, 1.01), (0.4, 0.75)
    for name, model, (least, most) in zip(names, models, least_and_most):
        assert hasattr(model, "ask"), f"{name} is not a model. Hint: `train_copier`."
        right, wrong, padding = model.ask(found_probable, ids)
        assert right > 0.2, (
            f"{name} gives the right id {right:.2f} on average, as if it had never "
            "been trained. Hint: `train_copier` returns a trained one."
        )
        assert least < right < most, (
            f"{name} gives the right id {right:.2f}, wrong ones {wrong:.2f} and "
            f"padding {padding:.2f} on average. Hint: are the two models in the order "
            "asked for, and was the second one trained with 0.4?"
        )
    true_sentences("how_sure", letters, REASONS, TRUE)
