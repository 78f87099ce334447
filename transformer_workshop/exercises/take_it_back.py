"""which axis counts tokens; the old cache stays; what follows is as in a fresh one"""

import torch

import annotated_transformer as at
from transformer_workshop.exercises.checking import kind


def judge(answer):
    model = at.GPT(20, 2, 16, 24, 4, 2).eval()
    with torch.no_grad():
        ids = torch.randint(20, (3, 9))  # batch, groups, tokens, d_k: 3, 2, 9, 4
        cache = model.empty_cache()
        model(ids, cache)
        stored = [{name: part.clone() for name, part in row.items()} for row in cache]
        found = answer(cache, 5)
        assert isinstance(found, list) and len(found) == 2, (
            "a GPT of two blocks has a list of two dictionaries as its cache, not "
            f"{kind(found)}."
        )
        assert all(isinstance(row, dict) and set(row) == {"k", "v"} for row in found), (
            'each block needs a dictionary with "k" and "v".'
        )
        for row, before in zip(cache, stored):
            for name in "kv":
                assert row[name].shape == before[name].shape, (
                    "the old cache has been cut, too. Hint: return new dictionaries."
                )
        for row, before in zip(found, stored):
            for name in "kv":
                shape = tuple(row[name].shape)
                assert shape == (3, 2, 5, 4), (
                    f'of "{name}" (3, 2, 9, 4), the first 5 of 9 tokens are (3, 2, 5, '
                    f"4), not {shape}. Hint: the third axis counts them."
                )
                assert torch.equal(row[name], before[name][:, :, :5]), (
                    f'of "{name}", other tokens than the first 5 were kept.'
                )
        other = torch.randint(20, (3, 4))
        expected = model(torch.cat([ids[:, :5], other], dim=1))[:, 5:]
        assert torch.allclose(model(other, found), expected, atol=1e-4), (
            "what follows isn't what follows the first 5 tokens alone."
        )
        assert all(
            torch.equal(row[name], before[name])
            for row, before in zip(cache, stored)
            for name in "kv"
        ), "using the new cache has changed the old one."
        assert answer(model.empty_cache(), 0) == [{}, {}], (
            "an empty cache, which has no keys yet, should stay as it is."
        )
