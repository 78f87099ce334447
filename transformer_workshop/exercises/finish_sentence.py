"""decoding: reading all the words so far, the triangle, the last position, turning
dropout off
"""

import torch
from torch import Tensor

import annotated_transformer as at
from transformer_workshop.exercises.checking import (
    MODE,
    kind,
    left_in_mode,
    sealed,
    show,
    small_model,
)

HINTS = {  # by the fingerprints of what the usual mistakes write for the first inputs
    "fd58d711cceb": "the source's padding is attended to. Hint: pass on `src_mask`.",
    "a7a0d7dbc7b1": "the decoder reads only the last word. Hint: it has no memory of "
    "its own and needs all the words so far.",
    "9f80f2d8cdd0": "the earlier positions see the later ones. Hint: in training they "
    "did not; `subsequent_mask` hides them.",
    "02b27ef675a7": "the next word is predicted from the first position. Hint: which "
    "position has read everything?",
}


def judge(answer):
    torch.manual_seed(torch.initial_seed() + 4)  # with seed 4, all mistakes differ
    model = small_model(N=2, scale=2.0, dropout=0.3)
    src = torch.tensor([[5, 3, 9, 4, 7], [8, 6, 2, 0, 0]])
    src_mask = (src != 0).unsqueeze(1)
    for typed in ([[1, 7, 4], [1, 3, 10]], [[1], [1]]):
        beginning = torch.tensor(typed)
        K = beginning.size(1)
        given = f"for the beginnings {typed} and max_len 9"
        found, mode = answer.ask(
            left_in_mode, False, model, src, src_mask, beginning.clone(), 9
        )
        what = tuple(found.shape) if isinstance(found, Tensor) else kind(found)
        assert what == (2, 9), f"{given} ids of shape (2, 9) are needed, not {what}."
        for row, ids in zip(found, beginning):
            assert torch.equal(row[:K], ids), (
                f"{given} a row begins with {show(row[:K])} instead of {show(ids)}. "
                "What was typed must stay as it is."
            )
        model.eval()
        with torch.no_grad():  # one pass over what was written says what should follow
            out = model(src, found[:, :-1], src_mask, at.subsequent_mask(8))
            right = torch.equal(
                model.generator(out).argmax(-1)[:, K - 1 :], found[:, K:]
            )
        hint = HINTS.get(
            sealed("finish_sentence", found.tolist()),
            "some word is not the most probable one.",
        )
        assert right, f"{given} {hint}"
        assert not mode, MODE[1]
        found_in_training, mode = answer.ask(
            left_in_mode, True, model, src, src_mask, beginning.clone(), 9
        )
        assert torch.equal(found_in_training, found), (
            "a model in training mode writes other words than in evaluation mode. "
            "Hint: the chapter has a helper that switches dropout off and restores the "
            "mode."
        )
        assert mode, MODE[0]
