"""Wrong answers to the exercise faulty_search."""

import annotated_transformer as at


def plain_search(
    hasty=False, undead=False, start=False, raw=False, wide=False, enough=False
):
    """Return a beam search with some of the faults of 4.5."""

    def search(step, width, max_len, alpha):
        live, ended = [(0.0, [0])], []

        def rated(total, ids):
            length = len(ids) - (not start)
            return at.length_normalized(total, length, alpha), ids

        for _ in range(max_len):
            offers = [
                (total + logp, [*ids, token])
                for total, ids in live
                for token, logp in enumerate(step(ids).tolist())
            ]
            live = sorted(offers, reverse=True)[: None if wide else width]
            ended += [rated(*each) for each in live if each[1][-1] == 1]
            if not undead:
                live = [each for each in live if each[1][-1] != 1]
            if hasty and ended or enough and len(ended) >= width:
                break
        return max(ended + [each if raw else rated(*each) for each in live])[1][1:]

    return search


WRONG = [
    plain_search(hasty=True, undead=True, start=True, raw=True),  # as planted
    plain_search(undead=True),
    plain_search(start=True),
    plain_search(raw=True),
    plain_search(wide=True),
    plain_search(enough=True),
    lambda step, width, max_len, alpha: [1],
]
