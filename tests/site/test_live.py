"""The site's engine in a real browser computes what PyTorch does."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_site import ROOT, chromium

import annotated_transformer as at
from transformer_workshop.models.translator import load_translator

sys.path.append(str(ROOT / "site"))
import live  # noqa: E402

pytestmark = pytest.mark.slow


def sentences(name: str, column: str = "german") -> list[str]:
    with (ROOT / "data" / name).open(encoding="utf-8", newline="") as file:
        return [row[column] for row in csv.DictReader(file, delimiter="\t")]


OURS = sentences("challenge/challenge.tsv")
ODD = [
    "Ein Hund schläft. Eine Katze schaut zu.", "Sie lacht... Er weint. Ende",
    "Dr. Meier wartet. Er liest z.B. Zeitung.", "Er heißt J. Huber. Er singt.",
    "Was für ein Tag! Die Kinder baden. Wer ist das?", "Ein  Mann\u00ad.", "ÄÖÜ",
    "Am 3. Mai regnet es. Zwei Leute lachen … Sie tanzen.", "", " . ", "<s> </s>",
    "»Komm her!« Der Hund kommt. (Er ist brav.) Er sitzt.", "EIN MANN FÄHRT FAHRRAD",
    "2024. Das Jahr war gut. Es war 12. Er rief: \"Halt!\" Sie hielt.",
    "Na?! Gut. – Ja.",
    "der fussballspieler schiesst den ball", "Die Koechin traegt eine gruene Schuerze.",
    "Ein Kaffee kostet 3,50 €. 🐶 Wau!",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("live")
    shutil.copy(ROOT / "site/static/transformer.js", folder)
    live.place(folder / "live", with_translator=True)
    scripts = ("transformer.js", "live/translator.js", "live/gpt.js")
    tags = "".join(f'<script src="{name}"></script>' for name in scripts)
    html = f'<!doctype html><meta charset="utf-8">{tags}'
    (folder / "page.html").write_text(html, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def page(folder):
    """Open a page from disk that has both models."""
    with chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(0)
        page.goto((folder / "page.html").as_uri())
        page.evaluate("""() => {
            window.engine = makeTransformer();
            window.translator = new engine.Translator(LIVE.translator);
            window.gpt = new engine.GPT(LIVE.gpt);
            window.report = (line, options) => {
                const search = engine.translate(translator, line, options);
                for (;;) {
                    const { value, done } = search.next();
                    if (done) return value;
                }
            };
        }""")
        yield page


@pytest.fixture(scope="module")
def translator():
    return load_translator(live.MODEL, "cpu", optimize=False)


@pytest.fixture(scope="module")
def rounded(translator):
    """Return a translator with the page's weights of 8 bits."""
    ours = load_translator(live.MODEL, "cpu", optimize=False)
    for weight in ours.model.parameters():
        if weight.dim() == 2:
            scales, ints = live.eight_bits(weight.detach().numpy())
            weight.data = torch.from_numpy(ints * scales)
    return ours


def test_lines_become_the_same_ids(page, translator):
    typed = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
    lines = [*OURS, *sentences("trust/sentences.tsv"), *ODD]
    lines += [change(x) for x in OURS[::3] for change in (str.lower, str.upper)]
    lines += [line.translate(typed) for line in OURS[::3]]
    theirs = page.evaluate(
        "all => all.map(x => translator.sentences(x).map(s => translator.ids(s)))",
        lines,
    )
    for line, ids in zip(lines, theirs, strict=True):
        assert ids == [translator.encode(s) for s in translator.sentences(line)], line


def test_a_hundred_translations_are_those_of_pytorch(page, translator, rounded):
    """With the same weights all are; 8 bits instead of 16 change some."""
    lines = OURS[::3]
    found = page.evaluate("all => all.map(line => report(line))", lines)
    same = rounded.translations(lines)
    for line, ours, theirs in zip(lines, found, same, strict=True):
        assert ours["text"] == theirs.text, line
        assert ours["confidence"] == pytest.approx(theirs.confidence, abs=1e-4)
        doubt = rounded.doubt(theirs.confidence, theirs.fault) or ""
        assert ours["doubt"] == doubt.partition("(")[2][:-1]
    whole = [each.text for each in translator.translations(lines)]
    changed = sum(ours["text"] != text for ours, text in zip(found, whole))
    print(changed, "of 100 translations are changed by 8 bits")
    assert changed <= 5


def test_the_search_and_what_it_looked_at_are_those_of_pytorch(page, rounded):
    for line in live.EXAMPLES[:3]:
        ours, theirs = (
            page.evaluate("line => report(line)", line),
            live.example(rounded, line),
        )
        for part in ("source", "path"):
            assert ours[part] == theirs[part]
        for one, other in zip(ours["steps"], theirs["steps"], strict=True):
            assert [x["word"] for x in one] == [x["word"] for x in other]
            assert [x["parent"] for x in one] == [x["parent"] for x in other]
            for x, y in zip(one, other):
                assert x["logP"] == pytest.approx(y["logP"], abs=2e-3)
        looks = torch.tensor(theirs["looks"])
        assert torch.allclose(torch.tensor(ours["looks"]), looks, atol=2e-3)


def test_a_hidden_word_is_masked_for_the_decoder(page, rounded):
    line, model = "Die Katze schläft auf dem Klavier.", rounded.model
    src = torch.tensor([rounded.encode(line)])
    mask = torch.ones(1, 1, src.size(1), dtype=torch.bool)
    memory = model.encode(src, mask)
    mask[..., 2] = False
    ids = [at.START]
    while ids[-1] != at.END:
        causal = at.subsequent_mask(len(ids)).bool()
        out = model.decode(memory, mask, torch.tensor([ids]), causal)
        ids.append(model.generator(out[:, -1]).argmax().item())
    text = page.evaluate(
        "([line, options]) => report(line, options).text",
        [line, {"beam": 1, "hidden": [2]}],
    )
    assert "cat" not in text and text == rounded.text.decode(ids[1:-1])


def test_what_is_in_a_box_is_what_pytorch_computes(page, rounded):
    model, outputs = rounded.model, {}
    parts = {
        name: module
        for name, module in model.named_modules()
        if name.endswith(("_attn", "feed_forward", "src_embed")) or name == "encoder"
    }
    hooks = [
        module.register_forward_hook(
            lambda _, given, out, name=name: outputs.update({name: out[0]})
        )
        for name, module in parts.items()
    ]
    src = torch.tensor([rounded.encode("Die Katze schläft auf dem Klavier.")])
    tgt = torch.tensor([[at.START, 120, 77, 300]])
    mask = torch.ones(1, 1, src.size(1), dtype=torch.bool)
    with torch.no_grad(), at.plain_attention(model):
        model(src, tgt, mask, at.subsequent_mask(tgt.size(1)).bool())
    for hook in hooks:
        hook.remove()
    text = page.evaluate(
        """([src, tgt]) => {
            const { generator, ...seen } = translator.trace(src, tgt);
            const plain = (_, each) => ArrayBuffer.isView(each) ? [...each] : each;
            return JSON.stringify(seen, plain);
        }""",
        [src[0].tolist(), tgt[0].tolist()],
    )
    theirs = json.loads(text)
    assert len(parts) == 2 + 3 * 5 and theirs.keys() == {*parts, "tgt_embed"}
    for name, module in parts.items():
        ours = outputs[name]
        torch.testing.assert_close(
            torch.tensor(theirs[name]["out"]), ours, atol=2e-3, rtol=0
        )
        if name.endswith("_attn"):
            weights = module.attn[0].transpose(0, 1)  # (queries, h, keys)
            for row, heads in zip(weights, theirs[name]["weights"], strict=True):
                seen = torch.tensor(heads).float()  # a decoder's row ends there
                assert torch.allclose(row[:, : seen.size(1)], seen, atol=2e-3)
                assert not row[:, seen.size(1) :].any()


def test_the_logits_of_the_gpt_and_its_dials(page):
    stored = json.loads(live.STORED.read_text(encoding="utf-8"))
    vocab = at.Vocabulary(live.SPECIALS + stored["words"])
    model = at.GPT(len(vocab), 3, 96, 256, 4, 2)
    model.load_state_dict(load_file(ROOT / "models/captions-gpt/gpt.safetensors"))
    model.eval()
    for text in (
        "",
        "A man",
        "Two girls are playing in the",
        "A man is giving the dog a",
    ):
        words = text.split()
        with torch.no_grad():
            logits = model(torch.tensor([[at.END, *vocab(words)]]))[0, -1]
        found = page.evaluate("words => Array.from(gpt.start(words).logits)", words)
        assert (torch.tensor(found) - logits).abs().max() < 1e-5
        for dials in (
            (1, 5, 1),
            (0.5, 10, 0.8),
            (2, len(vocab), 0.5),
            (1, len(vocab), 1),
        ):
            temperature, top_k, top_p = dials
            log_p = (logits / temperature).log_softmax(dim=-1)
            p = at.restrict(log_p, top_k, top_p).softmax(dim=-1)
            drawn = page.evaluate(
                "([x, dials]) => engine.restrict(gpt.start(x).logits, ...dials)",
                [words, dials],
            )
            assert len(drawn) == (p > 0).sum()
            for each in drawn:
                assert each["drawn"] == pytest.approx(p[each["id"]].item(), abs=1e-5)
    texts = page.evaluate("Array.from({ length: 20 }, () => gpt.write(['A'], {}))")
    assert all(set(words) <= set(vocab.get_itos()) for words in texts)
    assert len({tuple(words) for words in texts}) > 10


def test_the_stored_examples_are_fresh():
    """Numbers may be rounded otherwise on other processors."""

    def compare(ours, theirs):
        if isinstance(ours, float):
            assert ours == pytest.approx(theirs, abs=2e-3)
        elif isinstance(ours, list):
            for one, other in zip(ours, theirs, strict=True):
                compare(one, other)
        elif isinstance(ours, dict):
            assert ours.keys() == theirs.keys()
            for key in ours.keys() - {"doubt"}:
                compare(ours[key], theirs[key])
        else:
            assert ours == theirs

    compare(live.stored(), json.loads(live.STORED.read_text(encoding="utf-8")))


def test_a_site_without_the_translator_has_no_weights_of_it(tmp_path):
    live.place(tmp_path / "live", with_translator=False)
    assert {p.name for p in tmp_path.glob("live/*")} == {"gpt.js", "stored.js"}
    assert live.figure("beam", "en", "", with_translator=False) == ""
    assert 'data-weights="no"' in live.figure("translate", "en", "", False)
