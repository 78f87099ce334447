"""building an intervention: one head, one position, from a donor"""

import torch

import annotated_transformer as at
from transformer_workshop.exercises.checking import agree, same


def run_patched(answer, module, x, mask, *patch):
    """Return a module's output and its weights while an answer patches it."""
    with at.plain_attention(module), torch.no_grad():
        if patch:
            answer(module, *patch)
        return module(x, x, x, mask), module.attn


def judge(answer):
    module = at.MultiHeadedAttention(3, 12, dropout=0.0).eval()
    x, mask = torch.randn(4, 5, 12), torch.ones(4, 1, 5, dtype=torch.bool)
    mask[1, :, 3:] = False
    donors, t = torch.tensor([2, 0, 1, 3]), 2

    def run(*patch):
        return answer.ask(run_patched, module, x, mask, *patch)

    clean, weights = run()
    own, _ = run(1, t, torch.arange(4))
    agree(own, clean, "where each sentence is its own donor, nothing may change:",
          "the function gets more than queries, keys, and values.")  # fmt: skip
    found, kept = run(1, t, donors)
    given = "for h = 3, head 1, position 2, and donors [2, 0, 1, 3]"
    agree(kept, weights, f"{given} the weights in `attn` stay as they are:",
          "what is transplanted is the head's output.")  # fmt: skip
    moved = ((found - clean).abs().amax((0, 2)) > 1e-5).nonzero().flatten().tolist()
    assert moved == [t], (
        f"{given} your output changes at the positions {moved}, not at [2]. "
        "Hint: the outputs of all heads are (B, h, L, d_k)."
    )
    each = torch.stack([run(head, t, donors)[0] - clean for head in range(3)])
    assert not same(each[0], each[1]), (
        "heads 0 and 1 make the same difference. Hint: only one of them is patched."
    )
    together = each.sum(0)[:, t]
    backward = clean[donors.argsort()][:, t] - clean[:, t]
    assert not same(together, backward), (
        f"{given} sentence 0 gets the vector of sentence 1. Hint: donors[b] is where "
        "that of sentence b comes from."
    )
    agree(together, clean[donors][:, t] - clean[:, t],
          "with heads 0, 1, and 2 patched one at a time, the three differences must "
          "add up to that between donor and sentence:",
          "take all donors' vectors before you overwrite any.")  # fmt: skip
    for head in range(3):
        part = slice(4 * head, 4 * head + 4)
        with torch.no_grad():
            kept = module.linears[3].weight[:, part].clone()
            module.linears[3].weight[:, part] = 0
            silent = run()[0]
            patched = run(head, t, donors)[0]
            module.linears[3].weight[:, part] = kept
        assert same(patched, silent), (
            f"head {head} has no say in the output projection, and still it changes "
            "the output when it is patched. Hint: which head did you patch?"
        )
