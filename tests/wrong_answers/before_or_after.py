"""Wrong answers to the exercise before_or_after."""


def stack_with(fault):
    """Return a stack of residual connections with one fault."""

    def stack(x, sublayers, norm, norm_first):
        for sublayer in sublayers:
            if fault == "stream":
                x = norm(x) + sublayer(norm(x)) if norm_first else norm(x + sublayer(x))
            elif fault == "output":
                x = x + norm(sublayer(x)) if norm_first else norm(x + sublayer(x))
            elif fault == "after":
                x = x + sublayer(norm(x)) if norm_first else x + norm(sublayer(x))
            elif fault == "alone":
                x = x + sublayer(norm(x)) if norm_first else norm(sublayer(x))
            else:
                x = x + sublayer(norm(x)) if norm_first else norm(x + sublayer(x))
        return norm(x) if fault == "twice" or norm_first and fault != "last" else x

    return stack


WRONG = [
    stack_with("stream"),
    stack_with("output"),
    stack_with("after"),
    stack_with("alone"),
    stack_with("last"),
    stack_with("twice"),
    lambda x, sublayers, norm, norm_first: None,
]
