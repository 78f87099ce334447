"""Wrong answers to the exercise window_of_batches."""


def adding_up(zero="once", words="all", mean=False, quiet=False):
    """Return what 2.4 asks for, with one or another fault."""

    def accumulate(model, compute, batches):
        if quiet:
            model.eval()
        count = sum(batch.ntokens for batch in batches)
        if words == "positions":
            count = sum(batch.tgt_y.numel() for batch in batches)
        if zero == "once":
            model.zero_grad()
        for batch in batches:
            if zero == "each":
                model.zero_grad()
            out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
            norm = batch.ntokens if words == "own" else count
            _, loss = compute(out, batch.tgt_y, norm)
            (loss / len(batches) if mean else loss).backward()

    return accumulate


WRONG = [
    adding_up(zero="each", words="own", mean=True),  # as planted
    adding_up(zero="each"),
    adding_up(zero="each", words="own"),
    adding_up(zero="never"),
    adding_up(words="own"),
    adding_up(words="own", mean=True),
    adding_up(words="positions"),
    adding_up(mean=True),
    adding_up(quiet=True),
    lambda model, compute, batches: None,
    lambda model, compute, batches: model.zero_grad(),
]
