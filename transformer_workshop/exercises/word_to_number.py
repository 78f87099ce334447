"""special tokens, frequencies, `min_freq`; all unknown words share one id"""

from torch import Tensor

import annotated_transformer as at
from transformer_workshop.exercises.checking import listed


def german_words(*sentences: str) -> at.Vocabulary:
    """Return the source vocabulary that section 3.3 builds from these sentences."""
    return at.Vocabulary.build(word for line in sentences for word in line.split())


def judge(answer, sentence="der Vogel schläft nie"):
    assert isinstance(answer, list | tuple | Tensor), "the answer is a list of ids."
    ids = listed(answer)
    vocab = german_words(
        "der Hund bellt", "der Hund schläft", "der Vogel schläft", "der Hund frisst"
    )  # fmt: skip
    words = sentence.split()
    expected = [at.START, *vocab(words), at.END]
    assert len(ids) == len(expected), (
        f"your row has {len(ids)} ids. Four words, <s>, and </s> make six."
    )
    assert ids[0] == at.START and ids[-1] == at.END, (
        f"the row runs from <s>, {at.START}, to </s>, {at.END}; yours from {ids[0]} to "
        f"{ids[-1]}."
    )
    assert at.PAD not in ids, "2 is padding, which fills up the short rows of a batch."
    for word, hint in (
        ("nie", "it never occurs in training."),
        ("Vogel", "how often does it occur in training, and what does min_freq=2 ask?"),
    ):
        place = words.index(word) + 1
        assert ids[place] == at.UNK, (
            f"the id of {word} is not {ids[place]}. Hint: {hint}"
        )
    assert ids == expected, (
        f"the row is not {ids}. Hint: the special tokens have 0 to 3, then come the "
        "words that are kept, the most frequent first."
    )
