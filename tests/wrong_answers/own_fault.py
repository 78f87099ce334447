"""Wrong answers to the exercise own_fault."""

from transformer_workshop.lab.repair import lessons, minimal_pairs


def experiment(
    taught=lambda lesson: (lesson.changed, lesson.english),
    plain=lambda lesson: (lesson.usual, lesson.english),
    few=200, fewer=200, measured=None, pairs=24,
):  # fmt: skip
    """Return the experiment of section 3.8, with some fault."""
    first = [lesson for lesson in lessons() if lesson.kind == "place first"]
    return (
        [taught(lesson) for lesson in first[:few]],
        [plain(lesson) for lesson in first[:fewer]],
        measured or [(pair.usual, pair.changed) for pair in minimal_pairs()[:pairs]],
    )


FIRST = lessons()[0]
WRONG = [
    experiment(measured=[(each.usual, each.changed) for each in lessons()[:20]]),
    experiment(fewer=100),
    experiment(few=50, fewer=50),
    experiment(plain=lambda lesson: (lesson.changed, lesson.english)),
    experiment(plain=lambda lesson: ("Ein Hund bellt im Hof.", lesson.english)),
    experiment(taught=lambda _: (FIRST.changed, FIRST.english)),
    experiment(pairs=5),
    experiment(measured=[("Ein Cowboy winkt.", "Ein Cowboy winkt.")] * 12),
    experiment(taught=lambda lesson: lesson.changed),
    experiment(taught=lambda lesson: (lesson.changed, 1)),
    experiment()[:2],
    (1, 2, 3),
]
