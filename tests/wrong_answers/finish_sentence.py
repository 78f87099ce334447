"""Wrong answers to the exercise finish_sentence."""

import torch

import annotated_transformer as at


def continuation(model, src, src_mask, ys, max_len, fault=""):
    """Return what a model writes after ys, as it should or with one fault."""
    with torch.no_grad():
        seen = torch.ones_like(src_mask) if fault == "padding" else src_mask
        memory = model.encode(src, seen)
        while ys.size(1) < max_len:
            read = ys[:, -1:] if fault == "last word" else ys
            triangle = at.subsequent_mask(read.size(1))
            mask = torch.ones_like(triangle) if fault == "no triangle" else triangle
            out = model.decode(memory, seen, read, mask)
            last = out[:, 0] if fault == "first position" else out[:, -1]
            scores = model.generator(last)
            if fault == "least":
                scores = -scores
            ys = torch.cat([ys, scores.argmax(-1, keepdim=True)], dim=1)
    return ys


def finishing(fault="", quiet=True, restore=True):
    """Return a decoder that continues a beginning, wrongly in one way or another."""

    def continue_from(model, src, src_mask, beginning, max_len):
        before = model.training
        if quiet:
            model.eval()
        ys = continuation(model, src, src_mask, beginning, max_len, fault)
        if restore:
            model.train(True if restore == "always" else before)
        return ys

    return continue_from


def from_the_start(model, src, src_mask, beginning, max_len):
    """Ignore what was typed."""
    return at.greedy_decode(model, src, src_mask, max_len, start_symbol=1)


def only_the_rest(model, src, src_mask, beginning, max_len):
    """Return only what comes after what was typed."""
    ys = finishing()(model, src, src_mask, beginning, max_len)
    return ys[:, beginning.size(1) :]


WRONG = [
    from_the_start,
    only_the_rest,
    finishing("padding"),
    finishing("last word"),
    finishing("no triangle"),
    finishing("first position"),
    finishing("least"),
    finishing(quiet=False),
    finishing(restore=False),
    finishing(restore="always"),
]
