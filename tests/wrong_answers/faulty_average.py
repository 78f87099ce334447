"""Wrong answers to the exercise faulty_average."""


def mean_with(own=True, weights="all", wide=True):
    """Return a mean of checkpoints with some of the faults of 4.6."""

    def mean_of_states(states):
        mean = {name: x.clone() for name, x in states[0].items()} if own else states[0]
        for state in states[1:]:
            for name in mean:
                x = mean[name]
                if wide:
                    mean[name] = x.double() + state[name].double()
                else:
                    x += state[name]
                if weights == "halves":
                    mean[name] /= 2
        divisor = 1 if weights == "halves" else len(states)
        return {name: (x / divisor).to(states[-1][name]) for name, x in mean.items()}

    return mean_of_states


WRONG = [
    mean_with(own=False, weights="halves", wide=False),  # as planted
    mean_with(weights="halves"),
    mean_with(own=False),
    mean_with(wide=False),
    lambda states: mean_with()([{k: x.float() for k, x in s.items()} for s in states]),
    lambda states: [s["w"] for s in states],
]
