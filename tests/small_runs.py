"""A text of a few sentences, and a model of it that trains in a moment."""

from pathlib import Path

from annotated_transformer import TrainingConfig

PAIRS = [
    ("Ein Hund läuft.", "A dog runs."),
    ("Eine Katze schläft.", "A cat sleeps."),
    ("Zwei Hunde schlafen heute.", "Two dogs sleep today."),
    ("Der Mann liest.", "The man reads."),
    ("Die Frau läuft durch den Park.", "The woman runs through the park."),
    ("Ein Kind.", "A child."),
    ("Ein Mann und eine Frau lesen.", "A man and a woman read."),
]
SIX = PAIRS[:6]


def write_text(folder: Path, pairs: list[tuple[str, str]]) -> list[str]:
    """Sentence pairs as two files, German and English; returns their paths."""
    paths = []
    for side, lines in zip(("de", "en"), zip(*pairs)):
        path = folder / f"text.{side}"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        paths.append(str(path))
    return paths


def small_config(folder: Path, pairs: list[tuple[str, str]], **own) -> TrainingConfig:
    """Training on these pairs, which it also validates on; `own` settings win."""
    german, english = write_text(folder, pairs)
    settings = dict(
        dataset="files",
        train_src=german,
        train_tgt=english,
        valid_src=german,
        valid_tgt=english,
        bpe_size=280,
        N=1,
        d_model=16,
        d_ff=16,
        h=2,
        tie="all",
        batch_tokens=60,
        warmup=3,
        base_lr=0.01,
        device="cpu",
    )
    return TrainingConfig(**{**settings, **own})
