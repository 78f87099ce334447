"""Wrong answers to the exercise silence."""

WRONG = [
    "abc",  # as if the decoder, not the encoder, had told *mit* about the hat
    "bca",
    "ba",
    3,
]
