"""what residual connections carry; why a model without them learns only how frequent
words are
"""

import torch
from torch import Tensor, nn

import annotated_transformer as at
from transformer_workshop.exercises.checking import (
    Answer,
    agree,
    kind,
    same,
    true_sentences,
)


def outputs_of_block(answer, sizes, state, x, mask):
    """Return what a class of blocks computes with these weights; or what it lacks."""
    if not isinstance(answer, type):
        return None
    block = answer(*sizes)
    if not isinstance(block, nn.Module) or block.state_dict().keys() != state.keys():
        return "other weights"
    block.load_state_dict(state)
    cache: dict = {}
    steps = [block(x[:, [t]], None, cache) for t in range(x.size(1))]
    return block(x, mask), torch.cat(steps, dim=1)


def judge(answer):
    assert isinstance(answer, tuple | list) and len(answer) == 2, (
        "two things are asked for, (WithoutResiduals, letters)."
    )
    made, letters = answer
    assert isinstance(made, Answer), f"a class is needed, not {kind(made)}."
    sizes = 16, 24, 4, 2
    block = at.Block(*sizes)
    for weight in block.parameters():  # fresh scales are all one, whatever the norm
        if weight.dim() == 1:
            nn.init.uniform_(weight, 0.5, 1.5)
    x, mask = torch.randn(2, 5, 16), at.subsequent_mask(5)
    outputs = made.ask(outputs_of_block, sizes, block.state_dict(), x, mask)
    assert outputs is not None, f"a class is needed, not {kind(made)}."
    assert outputs != "other weights", (
        "your class doesn't have the weights of `Block`. Hint: derive it from that, "
        "and write only `forward`."
    )

    def passed_on(fault: str = "") -> Tensor:
        """Return what it should compute, or what it does with one fault."""
        u = x if fault == "norms" else block.norm_1(x)
        y = block.self_attn(u, u, u, None if fault == "mask" else mask)
        if fault in ("both", "first"):
            y = x + y
        if fault == "attention":
            return y
        read = x if fault == "input" else y
        z = block.feed_forward(read if fault == "norms" else block.norm_2(read))
        return y + z if fault in ("both", "second") else z

    found, cached = outputs
    assert isinstance(found, Tensor), f"a tensor is needed, not {kind(found)}."
    hints = {
        "both": "your block still does what `Block` does: x is added twice.",
        "first": "x is still added to what attention returns.",
        "second": "what attention returns is still added to what the feed-forward "
        "network returns.",
        "norms": "the norms are gone, too. Hint: leave out only the additions.",
        "input": "the feed-forward network reads the block's input. Hint: what "
        "attention returns has to go on to it.",
        "attention": "the feed-forward network is gone, too.",
        "mask": "the mask is lost on the way to the attention.",
    }
    for fault, hint in hints.items():
        assert not same(found, passed_on(fault)), hint
    hint = "attention of the norm, then the rest"
    agree(found, passed_on(), "for x (2, 5, 16)", hint)
    agree(
        cached,
        passed_on(),
        "for the same x, one position at a time with a `cache`",
        "as in `Block`, the attention gets it",
    )

    assert letters is not None and letters is not ..., (
        "the class is right. Now decide what you expect, train the models, and give "
        "the letters."
    )
    reasons = {
        "a": "the loss falls by almost two nats, so something is learned.",
        "b": "the loss falls to the entropy of the words' frequencies, which takes no "
        "context to reach, and stays there.",
        "c": "compare the logits at two positions: in the end, the blocks turn all "
        "vectors the same way, whatever words they come from.",
        "d": "fresh weights and norms pass on enough; the gradient of the first block "
        "is as large as in the intact model, or larger.",
        "e": "where all vectors are alike, nothing that the first block changes makes "
        "a difference; its gradient is less than a hundredth of the intact model's.",
        "f": "a single block comes close to a model with residuals. What does it read, "
        "and what do the blocks above it read?",
    }
    true_sentences(
        "6.7", letters, reasons, {"ea8b98031d67", "f89810cbe07d", "f4bacbb35c17"}
    )
