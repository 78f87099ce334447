"""Wrong answers to the exercise several_groups."""

import torch


def advantages(correction=0, dim=1, guard=True, divide=True):
    """Return the function with one fault."""

    def of(rewards):
        centered = rewards - rewards.mean(dim, keepdim=True)
        if not divide:
            return centered
        spread = rewards.std(dim, correction=correction, keepdim=True)
        if not guard:
            return centered / spread
        return torch.where(spread > 1e-6, centered / spread, 0 * centered)

    return of


WRONG = [
    advantages(divide=False),
    advantages(dim=None, divide=False),
    advantages(correction=1),
    advantages(guard=False),  # 0 / 0
    advantages(dim=0),
    lambda rewards: rewards / rewards.sum(1, keepdim=True),
    lambda rewards: advantages()(rewards).tolist(),
]
