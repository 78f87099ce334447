"""Wrong answers to the exercise faulty_cells."""


def faulty_cells(index=False, scale=False, places=False, turned=False):
    """Return the function of 5.1 with some of its faults."""

    def cells(attn, head, rows, columns):
        weights = attn[head, 0] if index else attn[0, head]
        weights = weights / weights.max() if scale else weights
        return [
            (
                rows.index(row) if places else r,
                row,
                columns.index(column) if places else c,
                column,
                (weights[c, r] if turned else weights[r, c]).item(),
            )
            for r, row in enumerate(rows)
            for c, column in enumerate(columns)
        ]

    return cells


WRONG = [  # with all four faults it is the stub, which is no answer yet
    faulty_cells(places=True),
    faulty_cells(turned=True),
    faulty_cells(index=True),
    faulty_cells(scale=True),
    lambda attn, head, rows, columns: [],
]
