"""whole words, capitals, periods and commas"""

from transformer_workshop.exercises.checking import kind


def judge(answer):
    pets = {"dog", "dogs", "cat", "cats"}
    for line, words, expected, hint in (
        ("A man is petting a cat in a garden.", pets, True, "it has a cat."),
        ("A man is reading a book.", pets, False, "it has none of them."),
        ("A man is catching a fish.", pets, False, "*catching* isn't *cat*."),
        ("A woman is walking a dog.", pets, True, "the period isn't part of the word."),
        ("Dogs are playing.", pets, True, "the first word has a capital."),
        ("A dog, a boy, and a girl.", pets, True, "the comma isn't part of the word."),
        ("A hotdog.", pets, False, "*hotdog* isn't *dog*."),
        ("", pets, False, "an empty sentence has no words."),
        ("A cat.", set(), False, "without words to look for, nothing passes."),
        ("A cat and a dog.", {"bird", "dog"}, True, "one of the words is enough."),
    ):
        found = answer(line, set(words))
        assert isinstance(found, bool), f"True or False is needed, not {kind(found)}."
        assert found == expected, (
            f"of {line!r} and {sorted(words)} it says {found}. Hint: {hint}"
        )
