"""Wrong answers to the exercise patch_head."""

import annotated_transformer as at


def patching(change, masked=True):
    """Return an answer that lets ``change`` edit the outputs (B, h, L, d_k)."""

    def patch_head(module, head, position, donors):
        def function(*inputs):
            x, weights = at.attention(*inputs[: 5 if masked else 3])
            x = x.clone()
            change(x, head, position, donors)
            return x, weights

        module.attention_function = function

    return patch_head


def all_heads(x, head, t, donors):
    x[:, :, t] = x[donors][:, :, t]


def all_positions(x, head, t, donors):
    x[:, head] = x[donors, head]


def to_the_donor(x, head, t, donors):
    x[donors, head, t] = x[:, head, t].clone()


def one_after_the_other(x, head, t, donors):
    for b, donor in enumerate(donors.tolist()):
        x[b, head, t] = x[donor, head, t]


def last_head_first(x, head, t, donors):
    x[:, -1 - head, t] = x[donors, -1 - head, t]


def right_but(x, head, t, donors):
    x[:, head, t] = x[donors, head, t]


def weights_patched(module, head, position, donors):
    """Transplant the head's map instead of what it returns."""

    def function(q, k, v, *rest):
        _, weights = at.attention(q, k, v, *rest)
        weights[:, head, position] = weights[donors, head, position]
        return weights @ v, weights

    module.attention_function = function


WRONG = [
    patching(right_but, masked=False),
    patching(all_positions),
    patching(all_heads),
    patching(to_the_donor),
    patching(one_after_the_other),
    patching(last_head_first),
    weights_patched,
]
