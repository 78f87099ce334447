"""Wrong answers to the exercise fewer_bits."""


def packed(levels=-1, guard=True, down=False, whole=False, inside=False):
    """Return the function with one fault."""

    def of(weight, bits, size):
        blocks = weight.reshape(1, -1) if whole else weight.reshape(-1, size)
        least = blocks.amin(1, keepdim=True)
        step = (blocks.amax(1, keepdim=True) - least) / (2**bits + levels)
        if guard:
            step = step.clamp_min(1e-12)
        level = (blocks - least) / step
        level = level.floor() if down else level.round()
        found = (least + step * level).view_as(weight)
        return weight.copy_(found) if inside else found

    return of


WRONG = [
    packed(levels=0),
    packed(guard=False),  # 0 / 0
    packed(down=True),
    packed(whole=True),
    packed(inside=True),
    lambda weight, bits, size: weight,
    lambda weight, bits, size: packed()(weight, bits + 1, size),
    lambda weight, bits, size: packed()(weight, bits, size).tolist(),
]
