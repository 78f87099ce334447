"""Decoding speed beside what people would use instead, in sentences per second.

    python benchmarks/decoding.py [--model runs/multi30k-small] [--rounds 3]

All sentences of test_2016_flickr, each until it ends by itself; the same trained
weights in every system. Greedy in batches of 100, beam 5 in batches of 50, and
single sentences one after the other.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import decoders
import torch
import turns

import annotated_transformer as at

SINGLE = 40  # sentences decoded one by one in a turn
OLD = 3  # sentences that the post's way decodes in a turn
WIDTH_2022 = 72


def groups(rows: Sequence, size: int) -> list[list]:
    """Rows by length, cut into batches."""
    ordered = sorted(rows, key=len)
    return [ordered[i : i + size] for i in range(0, len(ordered), size)]


def ours(model, rows: Sequence, beam_size: int) -> list[list[int]]:
    """Beam search of chapter 4 over one batch of id rows."""
    src = at.padded(rows)
    found = at.beam_search(
        model, src, (src != at.PAD).unsqueeze(-2), 128, at.START,
        end_symbol=at.END, beam_size=beam_size, length_penalty=1.0,
    )  # fmt: skip
    return [ids for ids, _ in found]


def generate(model, rows: Sequence, beam_size: int) -> list[list[int]]:
    """transformers' generate over one batch."""
    src = at.padded(rows)
    with torch.inference_mode():
        out = model.generate(
            src, attention_mask=(src != at.PAD).long(), num_beams=beam_size,
            do_sample=False, max_new_tokens=127,
        )  # fmt: skip
    return [[i for i in row if i > at.UNK or i == at.UNK] for row in out.tolist()]


def ctranslate(translator, words, rows: Sequence, beam_size: int) -> list[list[int]]:
    """CTranslate2 over one batch; its tokens back as ids."""
    tokens = [words.tokens(row) for row in rows]
    done = translator.translate_batch(
        tokens, beam_size=beam_size, max_decoding_length=127, max_batch_size=0
    )
    return [words(result.hypotheses[0]) for result in done]


def old(model, row: Sequence[int]) -> None:
    """The post's greedy_decode as its examples call it: 72 steps, all padded."""
    src = torch.full((1, WIDTH_2022), at.PAD)
    src[0, : len(row)] = torch.tensor(row)
    mask = (src != at.PAD).unsqueeze(-2)
    at.greedy_decode(model, src, mask, WIDTH_2022, at.START)


def over(batches: list, decode: Callable) -> Callable[[], int]:
    """A step that decodes all batches; the sentences it did."""

    def step() -> int:
        for batch in batches:
            decode(batch)
        return sum(map(len, batches))

    return step


def together(batches: list, decode: Callable) -> Callable[[], int]:
    """A step that decodes all batches as `translate` does, two at a time."""

    def step() -> int:
        for _ in at.side_by_side(decode, batches, torch.device("cpu")):
            pass
        return sum(map(len, batches))

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="runs/multi30k-small")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(2)
    at.keep_freed_memory()
    translator = at.load_translator(arguments.model, "cpu")
    model, words = translator.model.eval(), translator.vocab_tgt
    pairs = at.load_pairs(at.CONFIGS["small"], "test")
    rows = [translator.check(src) for src, _ in pairs]
    hugging = decoders.as_m2m100(translator)
    with tempfile.TemporaryDirectory() as folder:
        fast = {
            threads: decoders.as_ctranslate2(
                translator, Path(folder) / str(threads), threads
            )
            for threads in (1, 2)
        }
        agree = sum(
            a == b == c
            for batch in groups(rows[:100], 50)
            for a, b, c in zip(
                ours(model, batch, 1),
                generate(hugging, batch, 1),
                ctranslate(fast[1], words, batch, 1),
                strict=True,
            )  # fmt: skip
        )
        at.note(f"greedy outputs alike in all three: {agree} of 100")
        assert agree >= 95
        tables = {}
        for name, size, beam in (("greedy", 100, 1), ("beam 5", 50, 5)):
            batches = groups(rows, size)
            systems = {
                "ours": together(batches, lambda b, k=beam: ours(model, b, k)),
                "generate of transformers": over(
                    batches, lambda b, k=beam: generate(hugging, b, k)
                ),
            }
            for threads, engine in fast.items():
                systems[f"CTranslate2 float32, {threads} threads"] = over(
                    batches, lambda b, k=beam, e=engine: ctranslate(e, words, b, k)
                )
            if beam == 1:
                few = [[row] for row in rows[:: len(rows) // OLD][:OLD]]
                systems["the 2022 post's greedy_decode"] = over(
                    few, lambda b: old(model, b[0])
                )
            tables[name] = turns.compare(
                turns.take_turns(systems, 0.0, arguments.rounds), "ours"
            )
        single = [[row] for row in rows[:: len(rows) // SINGLE][:SINGLE]]
        systems = {
            "ours": over(
                single, lambda b: together([b], lambda b: ours(model, b, 1))()
            ),
            "generate of transformers": over(single, lambda b: generate(hugging, b, 1)),
        }
        for threads, engine in fast.items():
            systems[f"CTranslate2 float32, {threads} threads"] = over(
                single, lambda b, e=engine: ctranslate(e, words, b, 1)
            )
        tables["one sentence"] = turns.compare(
            turns.take_turns(systems, 0.0, arguments.rounds), "ours"
        )
    for name, table in tables.items():
        print(f"\n{name}", end="")
        turns.report(table, "sentences")
    turns.save("decoding", tables)


if __name__ == "__main__":
    main()
