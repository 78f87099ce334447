"""special tokens, frequencies, `min_freq`; all unknown words share one id"""

from torch import Tensor

import annotated_transformer as at
from transformer_workshop.exercises.checking import Part, judge_parts, listed

ASKED = "give a list of ids: of <s>, of each of the words, and of </s>"
SENTENCE = "der Vogel schläft nie"
HINTS = {
    "nie": "it never occurs in training.",
    "Vogel": "how often does it occur in training, and what does min_freq=2 ask?",
}
ROW = "the special tokens have 0 to 3: <s> is the first, </s> the second."
KEPT = (
    "the special tokens have 0 to 3, then come the words that are kept, the most "
    "frequent first."
)


def german_words(*sentences: str) -> at.Vocabulary:
    """Return the source vocabulary that section 3.3 builds from these sentences."""
    return at.Vocabulary.build(word for line in sentences for word in line.split())


def parts(sentence=SENTENCE):
    vocab = german_words(
        "der Hund bellt", "der Hund schläft", "der Vogel schläft", "der Hund frisst"
    )  # fmt: skip
    words = sentence.split()
    return [
        Part("the id of <s>", at.START, ROW),
        *(
            Part(f"the id of {each}", vocab[each], HINTS.get(each, KEPT))
            for each in words
        ),
        Part("the id of </s>", at.END, ROW),
    ]


def judge(answer, sentence=SENTENCE):
    ids = listed(answer) if isinstance(answer, list | tuple | Tensor) else None
    assert not ids or at.PAD not in ids, (
        "2 is padding, which fills up the short rows of a batch."
    )
    judge_parts(ids, ASKED, parts(sentence))
