"""What the live figures need: weights as scripts, and examples that PyTorch computed.

    python site/live.py

writes site/live.json: translations of our own EXAMPLES with their search and attention,
which the page shows until the weights are loaded, and the lists that the models' text
depends on. `site/build.py` needs no PyTorch: it copies that file, and calls `weights`.

A page that is opened from disk can load scripts, but fetch nothing. So the weights are
scripts, in base64: the translator's matrices have 8 bits a number, all else has 16.
"""

import ast
import base64
import html
import json
import textwrap
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

SITE = Path(__file__).resolve().parent
ROOT = SITE.parent
STORED = SITE / "live.json"
MODEL = ROOT / "models/multi30k-2026"
CLASSES = ("Embeddings", "SwiGLU", "Encoder", "Generator")  # whose code it shows
SPECIALS = ["<s>", "</s>", "<blank>", "<unk>"]
EXAMPLES = [
    "Die Katze schläft auf dem Klavier.",
    "Die Katze schläft auf dem Klaviwr.",
    "Ein Elefant trinkt Kaffee in der Küche.",
    "Ein alter Mann spielt im Park Schach mit seiner Enkelin.",
    "Aufmerksamkeit ist alles, was du brauchst.",
]
BEAM = "Der Fischer flickt am Hafen sein Netz."  # greedy decoding loses it
CUT = "Ein Mädchen sieht einem alten Mann mit einer Gitarre zu."
LAYER = 1  # its cross-attention finds the words best; the page shows its heads' mean

# --- weights ---------------------------------------------------------------------


def eight_bits(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a scale for each row of a matrix, and the row in integers up to 127."""
    scales = np.abs(matrix).max(1, keepdims=True).astype(np.float32) / 127
    return scales, np.rint(matrix / scales).astype(np.int8)


def script(name: str, state: dict[str, np.ndarray], rounded: bool, more: dict) -> str:
    """Return a script that stores tensors as ``LIVE[name]``, and ``more`` with them."""
    tensors, data = {}, bytearray()

    def place(array: np.ndarray) -> int:
        data.extend(b"\0" * (-len(data) % 4))
        data.extend(array.tobytes())
        return len(data) - array.nbytes

    for key, tensor in state.items():
        entry = tensors[key] = {"shape": tensor.shape}
        if rounded and tensor.ndim == 2:
            scales, ints = eight_bits(tensor)
            entry |= {"ints": place(ints), "scales": place(scales)}
        else:
            entry["floats"] = place(tensor.astype(np.float16))
    held = {**more, "tensors": tensors, "data": base64.b64encode(data).decode()}
    text = json.dumps(held, ensure_ascii=False, separators=(",", ":"))
    return f"(window.LIVE ??= {{}}).{name} = {text};\n"


def weights(folder: Path, with_translator: bool) -> None:
    """Write gpt.js and, if wanted, translator.js to a folder."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    state = load_file(ROOT / "models/captions-gpt/gpt.safetensors")
    sizes = {"N": 3, "d": 96, "h": 4, "groups": 2}
    more = {"sizes": sizes, "vocab": SPECIALS + stored["words"]}
    (folder / "gpt.js").write_text(script("gpt", state, False, more), encoding="utf-8")
    if not with_translator:
        return
    config, vocabulary, confidence = (
        json.loads((MODEL / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("config", "vocabulary", "confidence")
    )
    config = config["config"]
    sizes = {"N": config["N"], "d": config["d_model"], "h": config["h"],
             "maxTokens": config["max_tokens"]}  # fmt: skip
    more = {
        "sizes": sizes,
        "merges": [" ".join(m) for m in vocabulary["merges"]["model"]["merges"]],
        "threshold": confidence["threshold"],
        "abbreviations": stored["abbreviations"],
    }
    state = load_file(MODEL / "model.safetensors")
    path = folder / "translator.js"
    path.write_text(script("translator", state, True, more), encoding="utf-8")


# --- figures ---------------------------------------------------------------------

LABEL = {"en": "Your German sentence", "zh": "你的德语句子"}
NOTE = {
    "en": "Your sentence stays on your device. The weights (6 MB) are loaded with your "
    "first key; they were trained on Multi30k and are for research and education only.",
    "zh": "你的句子只留在你的设备上。权重（6 MB）等你按下第一个键才加载，"
    "用 Multi30k 训练而成，只供研究和教学使用。",
}
TRUST = {  # under the bar of the front page
    "en": "The bar shows how sure the model is, which doesn't make it right. Below the "
    "notch it warns; words as doubtful as that get a wavy line. "
    '<a href="{}#What-went-wrong">Why does it go wrong?</a>',
    "zh": "条形表示模型对译文有多大把握；有把握不等于译得对。低于刻线会有警告，"
    '同样没把握的词画波浪线。<a href="{}#错在哪里">它为什么会译错？</a>',
}
INTRODUCTION = {
    "translate": {
        "en": "Write German. A Transformer of 6 million weights, made of the parts "
        "that you build in this course, translates it here in your browser.",
        "zh": "写一句德语，浏览器里的 Transformer 就把它译成英语。"
        "这个模型有 600 万个参数，它的每个部件，这门课都会带你亲手写出来。",
    },
    "translate without": {
        "en": "A Transformer of 6 million weights, made of the parts that you build in "
        "this course, translated these German sentences.",
        "zh": "这些德语句子由一个 600 万参数的 Transformer 翻译，"
        "它的每个部件，这门课都会带你亲手写出来。",
    },
    "beam": {
        "en": "Now search for a translation of your own sentence, with "
        "<code>models/multi30k-2026</code>. Each column is a step: the hypotheses that "
        "it keeps, best first, with their summed log-probabilities. A dot is an end.",
        "zh": "现在换你自己的句子，让 <code>models/multi30k-2026</code> 搜索译文。"
        "一列是一步，列出这一步留下的候选，最好的在最上面，词下面是累加的对数概率。"
        "圆点表示句子结束。",
    },
    "cut": {
        "en": "Now your own sentence, with <code>models/multi30k-2026</code>. Click a "
        "word to hide it from the whole decoder. The encoder has read it all the same, "
        "and the other words' vectors can still tell of it.",
        "zh": "现在换你自己的句子，模型是 <code>models/multi30k-2026</code>。"
        "点一个词，整个解码器就看不到它了。不过编码器照样读过它，"
        "别的词的向量里也许还留着它的信息。",
    },
    "inside": {
        "en": "Click an embedding, an attention layer, a feed-forward network, or "
        "the generator: it opens on your sentence, with the numbers that it computes. "
        "The translator above has today's parts: positions that turn, a gate in the "
        "feed-forward network, and a norm before each part instead of after it "
        '(<a href="notebooks/06_since_2017.html">chapter 6</a>).',
        "zh": "点图里的嵌入、注意力、前馈网络或生成器，看它用你的句子算出什么数。"
        "上面的翻译器用的是现在的部件：旋转位置编码，带门的前馈网络，"
        "归一化放在每个部件之前，而不是之后"
        '（<a href="notebooks/06_since_2017.html">第 6 章</a>）。',
    },
    "next": {
        "en": "Now write with it: click a word to take it, or let the model draw the "
        "rest. Each bar is a word's probability at this temperature; what top-k and "
        "top-p cut off is gray.",
        "zh": "现在用它来写：点一个词，就把这个词接上去，也可以让模型自己抽完整句。"
        "条形的长短是词在这个温度下的概率，灰色的是 top-k 和 top-p 去掉的词。",
    },
}
NOTED = ("translate", "beam", "cut")  # those with a text box that loads the weights


def figure(kind: str, language: str, up: str, with_translator: bool = True) -> str:
    """Return the HTML of a figure that live.js makes live; ``up`` leads to _static/.

    Without the translator, the front page plays examples, and chapters have nothing.
    """
    if kind in ("beam", "cut", "inside") and not with_translator:
        return ""
    name = kind if with_translator or kind == "next" else "translate without"
    above = INTRODUCTION[name][language]
    inside = NOTE[language] if kind in NOTED and with_translator else ""
    inside = f'<p class="live-note">{inside}</p>' if inside else ""
    if kind == "translate":
        first = json.loads(STORED.read_text(encoding="utf-8"))["examples"][0]
        line, text = html.escape(first["line"], quote=True), html.escape(first["text"])
        trust = TRUST[language].format("notebooks/03_real_world_example.html")
        inside = (
            f'<input aria-label="{LABEL[language]}" value="{line}">'
            f'<p class="live-text">{text}</p><p class="live-note">{trust}</p>{inside}'
        )
    weights = "yes" if with_translator else "no"
    home = up if language == "en" else "../" + up  # the English edition has the scripts
    return (
        f'<p class="{"lead" if kind == "translate" else "live-intro"}">{above}</p>\n'
        f'<div class="live" data-figure="{kind}" data-weights="{weights}" '
        f'data-home="{home}">{inside}</div>'
    )


def code() -> dict[str, str]:
    """Return the lines of the chapters that compute what the drawing's boxes hold."""
    text = (ROOT / "annotated_transformer.py").read_text(encoding="utf-8")
    lines = text.splitlines()

    def shown(node: ast.FunctionDef) -> str:
        """Return a function without its docstring."""
        body = node.body[ast.get_docstring(node) is not None].lineno - 1
        kept = lines[node.lineno - 1 : node.body[0].lineno - 1]
        return textwrap.dedent("\n".join(kept + lines[body : node.end_lineno]))

    found = {}
    for top in ast.parse(text).body:
        if isinstance(top, ast.FunctionDef) and top.name == "attention":
            found[top.name] = shown(top)
        elif isinstance(top, ast.ClassDef) and top.name in CLASSES:
            for each in top.body:
                if isinstance(each, ast.FunctionDef) and each.name == "forward":
                    found[top.name] = f"# {top.name}\n{shown(each)}"
    return found


def place(folder: Path, with_translator: bool) -> None:
    """Write the scripts that the figures load to a folder."""
    folder.mkdir()
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    named = ("examples", "beam", "greedy", "cut", "threshold")
    shown = {**{key: stored[key] for key in named}, "code": code()}
    text = f"(window.LIVE ??= {{}}).stored = {json.dumps(shown, ensure_ascii=False)};\n"
    (folder / "stored.js").write_text(text, encoding="utf-8")
    weights(folder, with_translator)


# --- examples --------------------------------------------------------------------


def example(translator, line: str, beam: int | None = None) -> dict:
    """Return what the page's translator reports of a line with one sentence."""
    import torch

    from annotated_transformer import (
        END,
        START,
        is_over,
        length_normalized,
        plain_attention,
        subsequent_mask,
    )

    def piece(token: int) -> str:
        """Return a subword as text; a word begins with a space."""
        tokens = translator.text.vocab_src.tokens([token])
        return translator.text.tokenizer_src.tokenizer.decoder.decode(tokens)

    config, model = translator.config, translator.model
    [sentence] = translator.sentences(line)
    src = translator.encode(sentence)
    mask = torch.ones(1, 1, len(src), dtype=torch.bool)
    limit, beam = translator.limit(src), beam or config.beam_size
    alpha, ids = config.length_penalty, torch.tensor([src])
    rows: list[dict[tuple, float]] = [{(START,): 0.0}]  # what each step keeps
    hypotheses: list[tuple[list[int], float]] = [([START], 0.0)]
    finished: list[tuple[float, list[int]]] = []

    def score_of(written: list[int], log_p: float) -> float:
        return length_normalized(log_p, len(written) - 1, alpha)

    def over() -> bool:
        scores = sorted((score for score, _ in finished), reverse=True)
        scores = [*scores, *[float("-inf")] * beam][:beam]
        written, log_p = hypotheses[0]
        best, longest = torch.tensor([log_p]), torch.tensor([limit - 1])
        ended = torch.tensor([scores])
        return bool(is_over(best, ended, len(written) - 1, longest, alpha))

    with torch.no_grad():
        memory = model.encode(ids, mask)
        while not over():
            offers = []
            for written, total in hypotheses:
                causal = subsequent_mask(len(written))
                out = model.decode(memory, mask, torch.tensor([written]), causal)
                likeliest = model.generator(out[0, -1]).topk(beam + 1)
                for log_p, word in zip(*(x.tolist() for x in likeliest)):
                    offers.append(([*written, word], total + log_p))
            offers.sort(key=lambda offer: offer[1], reverse=True)
            ended = [offer for offer in offers[:beam] if offer[0][-1] == END]
            finished += [(score_of(*o), o[0][1:-1]) for o in ended]
            hypotheses = [o for o in offers if o[0][-1] != END][:beam]
            kept = [o for o in offers if o in ended or o in hypotheses]
            rows.append({tuple(written): log_p for written, log_p in kept})
        cut = score_of(*hypotheses[0]), hypotheses[0][0][1:]
        _, best = max([*finished, cut])
        path = [START, *best] if limit == len(best) + 1 else [START, *best, END]
        with plain_attention(model):
            tgt = torch.tensor([path[:-1]])
            causal = subsequent_mask(tgt.size(1)).bool()
            model(ids, tgt, mask, causal)
        looks = model.decoder.layers[LAYER].src_attn.attn[0].mean(0)[:, 1:-1]
    [found] = translator.translations([line], beam)
    return {
        "line": line,
        "text": found.text,
        "confidence": round(found.confidence, 4),
        "doubt": (translator.doubt(*found[1:]) or "").partition("(")[2][:-1],
        "source": [piece(token) for token in src[1:-1]],
        "looks": [[round(w, 3) for w in row] for row in looks.tolist()],
        "steps": [
            [
                {
                    "word": "" if ids[-1] == END else piece(ids[-1]),
                    "ended": ids[-1] == END,
                    "logP": round(log_p, 3),
                    "parent": list(before).index(ids[:-1]),
                }
                for ids, log_p in row.items()
            ]
            for before, row in zip(rows, rows[1:])
        ],
        "path": [
            list(row).index(tuple(path[: n + 1]))
            for n, row in enumerate(rows)
            if 0 < n < len(path)
        ],
    }


def stored() -> dict:
    """Compute what site/live.json holds."""
    import annotated_transformer as at
    from transformer_workshop.base.data_sets import data_file
    from transformer_workshop.base.text_files import read_lines
    from transformer_workshop.models.translator import load_translator
    from transformer_workshop.text.spelling import _abbreviations

    translator = load_translator(MODEL, "cpu", optimize=False)
    captions = read_lines(data_file("captions", "train.en"))
    _, vocab = at.token_stream(captions, at.WordTokenizer("en"))
    return {
        "examples": [example(translator, line) for line in EXAMPLES],
        "beam": example(translator, BEAM),
        "greedy": example(translator, BEAM, beam=1),
        "cut": example(translator, CUT),
        "threshold": translator.threshold,
        "abbreviations": sorted(_abbreviations("de")),
        "words": vocab.get_itos()[len(SPECIALS) :],
    }


if __name__ == "__main__":
    text = json.dumps(stored(), ensure_ascii=False, separators=(",", ":"))
    STORED.write_text(text + "\n", encoding="utf-8")
