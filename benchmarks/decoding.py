"""Compare the speed of decoding with other tools, in sentences per second.

    python benchmarks/decoding.py [--model models/multi30k] [--rounds 5]

Every system has the same trained weights and decodes test_2016_flickr, each sentence
until it ends by itself: all of them greedily in batches of 100, and with a beam of 5 in
batches of 50; forty of them one by one; and three in the older post's way, always to 72
positions.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence

import decoders
import peers
import torch
import turns

import annotated_transformer as at
from transformer_workshop.base.config import CONFIGS
from transformer_workshop.base.files import log
from transformer_workshop.models.export import export_to_ctranslate2
from transformer_workshop.models.speed import keep_freed_memory, map_in_threads
from transformer_workshop.models.translator import Translator, load_translator
from transformer_workshop.text.corpora import load_pairs

SINGLE = 40  # sentences decoded one by one in a turn
OLD = 3  # sentences that the post's way decodes in a turn
THREADS = {  # batches at once, threads for each
    "1 thread": (1, 1),
    "2 threads": (1, 2),
    "2 batches at once": (2, 1),
}


def groups(rows: Sequence, size: int) -> list[list]:
    """Cut rows into batches by length, the longest first, as CTranslate2 does."""
    ordered = sorted(rows, key=len, reverse=True)
    return [ordered[i : i + size] for i in range(0, len(ordered), size)]


def ours(model, rows: Sequence, beam_size: int) -> list[list[int]]:
    """Run chapter 4's beam search on one batch of id rows."""
    src = at.padded(rows)
    outputs = at.beam_search(
        model, src, (src != at.PAD).unsqueeze(-2), 128, at.START,
        end_symbol=at.END, beam_size=beam_size, length_penalty=1.0,
    )  # fmt: skip
    return [ids for ids, _ in outputs]


def generate(model, rows: Sequence, beam_size: int) -> list[list[int]]:
    """Run transformers' ``generate`` on one batch."""
    src = at.padded(rows)
    with torch.inference_mode():
        out = model.generate(
            src, attention_mask=(src != at.PAD).long(), num_beams=beam_size,
            do_sample=False, max_new_tokens=127,
        )  # fmt: skip
    return [[i for i in row if i >= at.UNK] for row in out.tolist()]


def at_once(engine, words, batches: list, beam_size: int) -> Callable[[], int]:
    """Return a step that gives CTranslate2 all batches, to distribute as it likes."""
    # The engine adds the start and end symbols itself.
    tokens = [words.tokens(row[1:-1]) for batch in batches for row in batch]

    def step() -> int:
        engine.translate_batch(
            tokens, beam_size=beam_size, max_decoding_length=127,
            max_batch_size=len(batches[0]),
        )  # fmt: skip
        return len(tokens)

    return step


def check_agreement(model, hugging, fast, words, rows: Sequence) -> None:
    """Assert that at least 95 % of greedy outputs are alike in all three decoders."""
    engine, alike = next(iter(fast.values())), 0
    for batch in groups(rows, 50):
        done = engine.translate_batch(
            [words.tokens(row[1:-1]) for row in batch], beam_size=1,
            max_decoding_length=127,
        )  # fmt: skip
        theirs = [words(result.hypotheses[0]) for result in done]
        outputs = ours(model, batch, 1), generate(hugging, batch, 1), theirs
        alike += sum(a == b == c for a, b, c in zip(*outputs, strict=True))
    log(f"identical greedy outputs in all three: {alike} of {len(rows)}")
    assert alike >= 0.95 * len(rows)


def as_2022(translator: Translator) -> torch.nn.Module:
    """Return the post's model with our weights."""
    model = peers.model_of_2022(translator.config, len(translator.text.vocab_tgt))
    model.load_state_dict(translator.model.state_dict())
    return model.eval()


def old(model, row: Sequence[int]) -> None:
    """Run the post's greedy_decode as its examples call it.

    It pads the sentence to 72 positions and always writes 72, decoding all words so far
    at each step; it builds the graph for gradients, too.
    """
    src = torch.full((1, peers.WIDTH_2022), at.PAD)
    src[0, : len(row)] = torch.tensor(row)
    mask = (src != at.PAD).unsqueeze(-2)
    memory = model.encode(src, mask)
    ys = torch.full((1, 1), at.START)
    while ys.size(1) < peers.WIDTH_2022:
        out = model.decode(memory, mask, ys, at.subsequent_mask(ys.size(1)))
        word = model.generator(out[:, -1]).argmax(-1)
        ys = torch.cat([ys, word.unsqueeze(1)], dim=1)


def over(batches: list, decode: Callable, threads: int) -> Callable[[], int]:
    """Return a step that decodes all batches and returns the number of sentences.

    It sets its number of threads anew: a new engine of CTranslate2 sets PyTorch's, too.
    """

    def step() -> int:
        torch.set_num_threads(threads)
        for batch in batches:
            decode(batch)
        return sum(map(len, batches))

    return step


def together(batches: list, decode: Callable) -> Callable[[], int]:
    """Return a step that decodes all batches as `translate` does, two at a time."""

    def step() -> int:
        torch.set_num_threads(2)
        for _ in map_in_threads(decode, batches, torch.device("cpu")):
            pass
        return sum(map(len, batches))

    return step


def search_quality(translator: Translator) -> dict[str, float]:
    """Compare the ratings of beam-5 outputs and greedy ones, on the validation set."""
    pairs = load_pairs(CONFIGS["small"], "valid")
    ratings: dict[int, list[float]] = {1: [], 5: []}
    for batch in groups([translator.encode(src) for src, _ in pairs], 50):
        for beam_size, rated in ratings.items():
            src = at.padded(batch)
            outputs = at.beam_search(
                translator.model, src, (src != at.PAD).unsqueeze(-2), 128, at.START,
                end_symbol=at.END, beam_size=beam_size, length_penalty=1.0,
            )  # fmt: skip
            rated += [rating for _, rating in outputs]
    greedy, beam = (torch.tensor(ratings[size]) for size in (1, 5))
    worse = (beam < greedy - 1e-4).float().mean().item()
    assert beam.mean() >= greedy.mean()
    return {
        "mean rating, greedy": round(greedy.mean().item(), 4),
        "mean rating, beam 5": round(beam.mean().item(), 4),
        "share rated worse than greedily": round(worse, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="models/multi30k")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(2)
    keep_freed_memory()
    translator = load_translator(arguments.model, "cpu")
    model, words = translator.model.eval(), translator.text.vocab_tgt
    pairs = load_pairs(CONFIGS["small"], "test")
    rows = [translator.encode(src) for src, _ in pairs]
    hugging = decoders.as_m2m100(translator)
    with tempfile.TemporaryDirectory() as outer:
        folder = f"{outer}/engine"
        export_to_ctranslate2(translator, folder)
        fast = {
            f"CTranslate2 float32, {name}": decoders.ctranslate2_of(folder, *threads)
            for name, threads in THREADS.items()
        }

        def systems(batches: list, beam: int) -> dict[str, Callable[[], int]]:
            """Return the systems that take turns; each decodes all batches."""
            made = {"ours": together(batches, lambda b: ours(model, b, beam))}
            for name, threads in {"1 thread": 1, "2 threads": 2}.items():
                made[f"generate of transformers, {name}"] = over(
                    batches, lambda b: generate(hugging, b, beam), threads
                )
            for name, engine in fast.items():
                made[name] = at_once(engine, words, batches, beam)
            return made

        check_agreement(model, hugging, fast, words, rows[:100])
        greedy = systems(groups(rows, 100), 1)
        few = [[row] for row in rows[:: len(rows) // OLD][:OLD]]
        post = as_2022(translator)
        greedy["the 2022 post's greedy_decode"] = over(
            few, lambda b: old(post, b[0]), threads=1
        )
        single = [[row] for row in rows[:: len(rows) // SINGLE][:SINGLE]]
        alone = {
            name: over(single, step, threads=1)
            for name, step in {
                "ours": lambda b: together([b], lambda b: ours(model, b, 1))(),
                "generate of transformers": lambda b: generate(hugging, b, 1),
                **{
                    name: lambda b, e=engine: at_once(e, words, [b], 1)()
                    for name, engine in fast.items()
                },
            }.items()
        }
        kinds = {
            "greedy": greedy, "beam 5": systems(groups(rows, 50), 5),
            "one sentence": alone,
        }  # fmt: skip
        tables = {}
        for name, made in kinds.items():
            timed = turns.take_turns(made, 0.0, arguments.rounds)
            tables[name] = turns.compare(timed, "ours")
    for name, table in tables.items():
        print(f"\n{name}", end="")
        turns.report(table, "sentences")
    quality = search_quality(translator)
    print("\non the validation set:")
    for name, value in quality.items():
        print(f"  {name} {value}")
    turns.save("decoding", {**tables, "search": quality})


if __name__ == "__main__":
    main()
