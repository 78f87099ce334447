"""scoring with teacher forcing; counting the end symbol; the model's mode and
gradients
"""

import torch

import annotated_transformer as at
from transformer_workshop.exercises.checking import (
    MODE,
    is_number,
    kind,
    left_in_mode,
    near,
)


def judge(answer):
    model = at.make_model(9, 9, N=1, d_model=16, d_ff=32, h=2, dropout=0.3)
    for p in model.parameters():
        p.data += 0.3 * torch.randn_like(p)
    src = torch.tensor([[4, 5, 6, 7, 2, 2]])
    mask, all_seen = (src != 2).unsqueeze(1), torch.ones(1, 1, 6).bool()

    def parts_of(ids, seen):
        """Return the log-probability of each id but the first, step by step."""
        with at.in_mode(model, training=False):
            memory = model.encode(src, seen)
            cache = at.Cache(model.decoder, memory, seen, len(ids))
            read = [torch.tensor([ids[:n]]) for n in range(1, len(ids))]
            steps = [at.decode_step(model, cache, ys) for ys in read]
            return [step[0, new].item() for step, new in zip(steps, ids[1:])]

    def unmasked(ids):
        """Return the log-probability of the ids if each word sees the later ones."""
        tgt = torch.tensor([ids[:-1]])
        with at.in_mode(model, training=False):
            log_p = model.generator(model(src, tgt, mask, None))[0]
        return log_p[range(len(ids) - 1), ids[1:]].sum().item()

    for n, start, end in ((4, 0, 1), (7, 3, 8)):
        ids = torch.randint(3, 8, (n,)).tolist()
        parts = parts_of([start, *ids, end], mask)
        expected = sum(parts)
        given = f"for the output {ids}, start={start} and end={end}"

        given_ids = model, src, mask, ids, start, end
        found, mode = answer.ask(left_in_mode, True, *given_ids)
        assert is_number(found), (
            f"a plain number is needed, not {kind(found)}. Hint: .item()"
        )
        assert not near(found, sum(parts[:-1])), (
            f"{given} the end symbol is missing: stopping is a decision, too."
        )
        assert not near(found, expected / len(parts)), (
            f"{given} this is a mean; the answer is the sum over the words."
        )
        assert not near(found, sum(parts_of([start, *ids, end], all_seen))), (
            f"{given} the source's padding is attended to. Hint: pass on `src_mask`."
        )
        assert not near(found, unmasked([start, *ids, end])), (
            f"{given} the decoder sees the words that it is to predict. Hint: it needs "
            "a causal mask; `subsequent_mask` makes one."
        )
        assert near(found, answer.ask(left_in_mode, True, *given_ids)[0]), (
            "a second call gives a different number. Hint: dropout is on."
        )
        assert near(found, expected), (
            f"{given} it is {expected:.4f}, not {found:.4f}. Hint: the decoder reads "
            "the start symbol and the ids, and predicts the ids and the end symbol."
        )
        assert mode, MODE[0]
        assert not answer.ask(left_in_mode, False, *given_ids)[1], MODE[1]
