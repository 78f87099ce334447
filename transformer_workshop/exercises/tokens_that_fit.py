"""what a cache stores for each token, and what sharing keys and values saves"""

import torch

import annotated_transformer as at
from transformer_workshop.exercises.checking import is_number


def judge(answer):
    assert isinstance(answer, tuple | list) and len(answer) == 2, (
        "two functions are asked for, (bytes_per_token, tokens_that_fit)."
    )

    def bytes_in_the_cache(N: int, h: int, h_kv: int, d_k: int) -> int:
        """Return what a cache of 32-bit numbers grows by with each token."""
        model, tokens = at.GPT(9, N, h * d_k, 8, h, h_kv), 3
        cache = model.empty_cache()
        for _ in range(tokens):
            model(torch.tensor([[4]]), cache)
        stored = [part for layer in cache for part in layer.values()]
        return sum(part.numel() * part.element_size() for part in stored) // tokens

    bytes_per_token, tokens_that_fit = answer
    for N, h, h_kv, d_k in ((1, 3, 3, 2), (3, 6, 2, 4), (2, 4, 1, 6)):
        expected = bytes_in_the_cache(N, h, h_kv, d_k)
        found = bytes_per_token(N, h_kv, d_k, 4)
        given = f"for N={N}, h_kv={h_kv}, d_k={d_k} and 4 bytes per number"
        assert is_number(found), f"{given} a number is needed, not {found!r}."
        assert found != expected / 2, (
            f"{given} {found} is half of what is stored. Hint: of what are there two?"
        )
        assert found != expected / 4, (
            f"{given} {found} counts numbers. Hint: how many bytes does each take?"
        )
        assert N == 1 or found != expected / N, (
            f"{given} {found} is what one layer stores."
        )
        assert found != 8 * expected, f"{given} {found} counts bits."
        assert found == expected, (
            f"{given} a cache grows by {expected} bytes, not {found}. Hint: each layer "
            "stores a key and a value for each of its h_kv heads."
        )
    assert bytes_per_token(1, 1, 8, 2) == 32, (
        "with 2 bytes per number the answer must be half of that with 4 bytes."
    )
    for memory, batch, size in (
        (960, 1, (1, 3, 2, 4)),
        (960, 5, (1, 3, 2, 4)),
        (1000, 3, (1, 3, 2, 4)),
        (16 * 2**30, 8, (32, 8, 128, 2)),
    ):
        each = bytes_per_token(*size)
        expected = memory // (batch * each)
        found = tokens_that_fit(memory, batch, *size)
        given = f"for {memory:,} bytes, batch={batch} and {each:,} bytes per token"
        assert is_number(found), f"{given} a number is needed, not {found!r}."
        assert batch == 1 or found not in (memory // each, expected * batch), (
            f"{given} {found:,} tokens are those of all sequences together. Hint: they "
            "share the memory."
        )
        assert found == int(found), f"{given} {found} isn't a whole number of tokens."
        assert found != expected + 1, (
            f"{given} {found} tokens don't fit. Hint: round down."
        )
        assert found == expected, f"{given} it is {expected:,}, not {found:,}."
