"""Wrong answers to the exercise wrong_result."""

import annotated_transformer as at


def causal_but_alone(x, w_q, w_k, w_v, h, mask):
    """Use one head where h are asked for."""
    return at.attention(x @ w_q, x @ w_k, x @ w_v, mask)[0]


def cut_by_view(x, w_q, w_k, w_v, h, mask):
    """Leave the planted bug in."""
    B, L, d_model = x.shape
    q, k, v = ((x @ w).view(B, h, L, d_model // h) for w in (w_q, w_k, w_v))
    out = at.attention(q, k, v, mask.unsqueeze(1))[0]
    return out.transpose(1, 2).reshape(B, L, d_model)


def joined_by_reshape(x, w_q, w_k, w_v, h, mask):
    """Split correctly, but don't bring the heads of a word together again."""
    B, L, d_model = x.shape
    q, k, v = ((x @ w).view(B, L, h, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    return at.attention(q, k, v, mask.unsqueeze(1))[0].reshape(B, L, d_model)


def scaled_by_d_model(x, w_q, w_k, w_v, h, mask):
    """Divide the scores of a head as if it were all of them."""
    B, L, d_model = x.shape
    q, k, v = ((x @ w).view(B, L, h, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    out = at.attention(q / h**0.5, k, v, mask.unsqueeze(1))[0]
    return out.transpose(1, 2).reshape(B, L, d_model)


def unscaled(x, w_q, w_k, w_v, h, mask):
    """Don't divide the scores at all."""
    return scaled_by_d_model(x, w_q * x.size(-1) ** 0.5, w_k, w_v, h, mask)


def with_own_mask(x, w_q, w_k, w_v, h, mask):
    """Ignore the caller's mask; a triangle is right for most callers."""
    B, L, d_model = x.shape
    q, k, v = ((x @ w).view(B, L, h, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    out = at.attention(q, k, v, at.subsequent_mask(L).unsqueeze(1))[0]
    return out.transpose(1, 2).reshape(B, L, d_model)


WRONG = [
    cut_by_view, joined_by_reshape, causal_but_alone, scaled_by_d_model, unscaled,
    with_own_mask,
]  # fmt: skip
