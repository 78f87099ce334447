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
    show,
    small_model,
)


def judge(answer):
    def continuation(fault: str, ys: Tensor) -> Tensor:
        """Return what the model writes after ys with one fault."""
        seen = torch.ones_like(src_mask) if fault == "padding" else src_mask
        memory = model.encode(src, seen)
        while ys.size(1) < 9:
            read = ys[:, -1:] if fault == "last word" else ys
            triangle = at.subsequent_mask(read.size(1))
            mask = torch.ones_like(triangle) if fault == "no triangle" else triangle
            out = model.decode(memory, seen, read, mask)
            last = out[:, 0] if fault == "first position" else out[:, -1]
            word = model.generator(last).argmax(-1, keepdim=True)
            ys = torch.cat([ys, word], dim=1)
        return ys

    hints = {
        "padding": "the source's padding is attended to. Hint: pass on `src_mask`.",
        "last word": "the decoder reads only the last word. Hint: it has no memory of "
        "its own and needs all the words so far.",
        "no triangle": "the earlier positions see the later ones. Hint: in training "
        "they did not; `subsequent_mask` hides them.",
        "first position": "the next word is predicted from the first position. Hint: "
        "which position has read everything?",
    }
    torch.manual_seed(torch.initial_seed() + 4)  # seed 4 shows every fault
    model = small_model(N=2, scale=2.0, dropout=0.3)
    src = torch.tensor([[5, 3, 9, 4, 7], [8, 6, 2, 0, 0]])
    src_mask = (src != 0).unsqueeze(1)
    for typed in ([[1], [1]], [[1, 7, 4], [1, 3, 10]]):
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
            for fault, hint in hints.items():
                wrong = torch.equal(found, continuation(fault, beginning))
                assert right or not wrong, f"{given} {hint}"
        assert right, f"{given} some word is not the most probable one."
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
