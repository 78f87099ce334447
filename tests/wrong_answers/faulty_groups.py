"""Wrong answers to the exercise faulty_groups."""

import torch

import annotated_transformer as at


def faulty_groups(values=False, again=False, interleaved=False, beginning=False):
    """Return the function of 6.4 with some of its faults."""

    def attend(query, key, value, mask=None):
        copies, d_k, S = query.size(1) // key.size(1), query.size(3), key.size(2)
        speed = 10000 ** -(torch.arange(0, d_k, 2) / d_k)

        def rotate(x):
            L = x.size(2)
            position = torch.arange(L) + (0 if beginning else S - L)
            angle = position.unsqueeze(1) * speed
            a, b = x.chunk(2, dim=-1)
            left = a * angle.cos() - b * angle.sin()
            right = (left if again else a) * angle.sin() + b * angle.cos()
            return torch.cat([left, right], dim=-1)

        def shared(x):
            if interleaved:
                return x.repeat(1, copies, 1, 1)
            return x.repeat_interleave(copies, dim=1)

        key, value = rotate(key), rotate(value) if values else value
        return at.attention(rotate(query), shared(key), shared(value), mask)[0]

    return attend


WRONG = [  # with all four faults it is the stub, which is no answer yet
    faulty_groups(values=True),
    faulty_groups(again=True),
    faulty_groups(interleaved=True),
    faulty_groups(beginning=True),
    lambda query, key, value, mask=None: query,
]
