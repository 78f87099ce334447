// The models of this course in plain JavaScript, without a library: chapter 6's GPT, and the
// translator models/multi30k-2026, which has the same parts. Read it beside chapter 6: a vector
// is a Float32Array, and a sequence is a list of vectors, one for each position.
//
// All of it is one function, because a page that is opened from disk can start a worker only
// from text, and a function knows its own text.
function makeTransformer() {
  "use strict";
  const SPECIALS = ["<s>", "</s>", "<blank>", "<unk>"];
  const START = 0, END = 1, UNK = 3;

  // --- Weights --------------------------------------------------------------------------
  // site/live.py writes all tensors in a row, in base64. Numbers have 16 bits, which is what
  // the files in models/ have, too; or 8 bits, and then each row of a matrix has a scale.

  function float16(bits) {
    const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }

  function load({ tensors, data }) {
    const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0)).buffer;
    const weights = {};
    for (const [name, { shape, floats, ints, scales }] of Object.entries(tensors)) {
      const size = shape.reduce((a, b) => a * b);
      if (floats !== undefined) {
        weights[name] = Float32Array.from(new Uint16Array(bytes, floats, size), float16);
        continue;
      }
      const [rows, columns] = shape, scale = new Float32Array(bytes, scales, rows);
      const W = weights[name] = new Float32Array(new Int8Array(bytes, ints, size));
      for (let r = 0, at = 0; r < rows; r++)
        for (let i = 0; i < columns; i++, at++) W[at] *= scale[r];
    }
    return weights;
  }

  // --- The parts (6.2 to 6.6) -----------------------------------------------------------

  // W x for each vector x. Nearly all the time is spent here, and most of it on fetching W
  // from memory. So each row of W serves five vectors at once, as many as a beam has.
  function linear(W, xs) {
    const d = xs[0].length, rows = W.length / d, ys = xs.map(() => new Float32Array(rows));
    let j = 0;
    for (; j + 3 < xs.length; j += 5) {
      const five = [0, 1, 2, 3, 4].map(k => Math.min(j + k, xs.length - 1));
      const [x0, x1, x2, x3, x4] = five.map(k => xs[k]), [y0, y1, y2, y3, y4] = five.map(k => ys[k]);
      for (let r = 0, at = 0; r < rows; r++) {
        let a = 0, b = 0, c = 0, e = 0, f = 0;
        for (let i = 0; i < d; i++, at++) {
          const w = W[at];
          a += w * x0[i]; b += w * x1[i]; c += w * x2[i]; e += w * x3[i]; f += w * x4[i];
        }
        y0[r] = a; y1[r] = b; y2[r] = c; y3[r] = e; y4[r] = f;
      }
    }
    for (; j < xs.length; j++) { // what is left, four columns at once
      const x = xs[j], y = ys[j];
      for (let r = 0, at = 0; r < rows; r++) {
        let a = 0, b = 0, c = 0, e = 0;
        let i = 0;
        for (; i + 3 < d; i += 4, at += 4) {
          a += W[at] * x[i]; b += W[at + 1] * x[i + 1];
          c += W[at + 2] * x[i + 2]; e += W[at + 3] * x[i + 3];
        }
        for (; i < d; i++, at++) a += W[at] * x[i];
        y[r] = a + b + c + e;
      }
    }
    return ys;
  }

  // RMSNorm. With a weight as wide as a head, it norms each head by itself.
  function norm(x, weight) {
    const y = new Float32Array(x.length), n = weight.length;
    for (let from = 0; from < x.length; from += n) {
      let squares = 0;
      for (let i = from; i < from + n; i++) squares += x[i] * x[i];
      const by = 1 / Math.sqrt(squares / n + 1e-6);
      for (let i = 0; i < n; i++) y[from + i] = x[from + i] * by * weight[i];
    }
    return y;
  }

  // Rotary positions: in each head, coordinates i and i + dk / 2 are a pair.
  function rotate(x, dk, position) {
    for (let i = 0; i < dk / 2; i++) {
      const angle = position * 10000 ** (-2 * i / dk), c = Math.cos(angle), s = Math.sin(angle);
      for (let a = i; a < x.length; a += dk) {
        const b = a + dk / 2, before = x[a];
        x[a] = before * c - x[b] * s;
        x[b] = before * s + x[b] * c;
      }
    }
    return x;
  }

  function softmax(scores) {
    const top = scores.reduce((a, b) => Math.max(a, b));
    const p = Float64Array.from(scores, z => Math.exp(z - top));
    const sum = p.reduce((a, b) => a + b);
    return p.map(value => value / sum);
  }

  function logSoftmax(scores) {
    let top = -Infinity, sum = 0;
    for (const z of scores) if (z > top) top = z;
    for (const z of scores) sum += Math.exp(z - top);
    const log = top + Math.log(sum);
    return scores.map(z => z - log);
  }

  // One query (d) in all its heads, over a key and a value for each position. `shared` heads of
  // the query use one of the keys. The weights of each head are added to `looks`, a list.
  function attention(query, keys, values, dk, shared = 1, looks) {
    const out = new Float32Array(query.length);
    for (let h = 0; h * dk < query.length; h++) {
      const q = h * dk, k = Math.floor(h / shared) * dk;
      const weights = softmax(Float64Array.from(keys, key => {
        let score = 0;
        for (let i = 0; i < dk; i++) score += query[q + i] * key[k + i];
        return score / Math.sqrt(dk);
      }));
      values.forEach((value, t) => {
        for (let i = 0; i < dk; i++) out[q + i] += weights[t] * value[k + i];
      });
      looks?.push(weights);
    }
    return out;
  }

  function swiglu(W, name, xs) {
    const gates = linear(W[`${name}.gate.weight`], xs);
    const inner = linear(W[`${name}.w_1.weight`], xs);
    inner.forEach((y, j) => {
      for (let i = 0; i < y.length; i++) y[i] *= gates[j][i] / (1 + Math.exp(-gates[j][i]));
    });
    return linear(W[`${name}.w_2.weight`], inner);
  }

  // Queries, keys, and values of self-attention: queries and keys are normed and rotated.
  function project(W, name, xs, dk, positions) {
    const [q, k, v] = [0, 1, 2].map(i => linear(W[`${name}.linears.${i}.weight`], xs));
    const turned = (all, by) =>
      all.map((x, j) => rotate(norm(x, W[`${name}.${by}.weight`]), dk, positions[j]));
    return [turned(q, "q_norm"), turned(k, "k_norm"), v];
  }

  const join = (W, name, xs) => linear(W[`${name}.linears.3.weight`], xs);

  // Pre-norm and residual: x + f(norm(x)) for each x, in place.
  function sublayer(xs, weight, f) {
    f(xs.map(x => norm(x, weight))).forEach((y, j) => {
      for (let i = 0; i < y.length; i++) xs[j][i] += y[i];
    });
  }

  // What a decoder has read so far: the keys and values of each layer (4.4).
  const emptyCache = layers => ({
    length: 0,
    keys: Array.from({ length: layers }, () => []),
    values: Array.from({ length: layers }, () => []),
  });
  const copyOf = cache => ({
    length: cache.length,
    keys: cache.keys.map(layer => [...layer]),
    values: cache.values.map(layer => [...layer]),
  });

  // Who wants to see what a part computes is told its name and its matrices, in rows.
  const nobody = () => {};

  // Self-attention of one new position in each of several sequences.
  function attendOnwards(W, name, xs, dk, shared, caches, layer, watch = nobody) {
    const [query, key, value] = project(W, name, xs, dk, caches.map(cache => cache.length));
    const weights = xs.map(() => []);
    const out = join(W, name, caches.map(({ keys, values }, j) => {
      keys[layer].push(key[j]);
      values[layer].push(value[j]);
      return attention(query[j], keys[layer], values[layer], dk, shared, weights[j]);
    }));
    watch(name, { x: xs, query, key, value, weights, out });
    return out;
  }

  // The ids of the k largest numbers, largest first.
  function top(k, numbers) {
    const best = [];
    for (let i = 0; i < numbers.length; i++) {
      if (best.length === k && numbers[i] <= numbers[best[k - 1]]) continue;
      let at = Math.min(best.length, k - 1);
      for (; at > 0 && numbers[best[at - 1]] < numbers[i]; at--) best[at] = best[at - 1];
      best[at] = i;
    }
    return best;
  }

  // --- The GPT (6.7 to 6.9) -------------------------------------------------------------

  class GPT {
    constructor(held) {
      Object.assign(this, held.sizes); // N, d, h, groups
      this.vocab = held.vocab;
      this.ids = new Map(held.vocab.map((word, id) => [word, id]));
      this.W = load(held);
    }

    // Read a word, and return the logits of the one that follows.
    read(id, cache) {
      const { W, N, d, h, groups } = this, table = W["embed.weight"];
      const xs = [table.slice(id * d, (id + 1) * d)];
      for (let layer = 0; layer < N; layer++) {
        const block = `blocks.${layer}`;
        sublayer(xs, W[`${block}.norm_1.weight`], ys =>
          attendOnwards(W, `${block}.self_attn`, ys, d / h, h / groups, [cache], layer));
        sublayer(xs, W[`${block}.norm_2.weight`], ys => swiglu(W, `${block}.feed_forward`, ys));
      }
      cache.length++;
      return linear(table, [norm(xs[0], W["norm.weight"])])[0];
    }

    // Read words from the beginning of a text; return the last logits, and the cache.
    start(words) {
      const cache = emptyCache(this.N);
      let logits = this.read(END, cache);
      for (const word of words) logits = this.read(this.ids.get(word) ?? UNK, cache);
      return { logits, cache };
    }

    // Draw words until the text ends, or has `most` words.
    write(words, { temperature, topK, topP, most = 40 }, random = Math.random) {
      let { logits, cache } = this.start(words);
      const text = [...words];
      while (text.length < most) {
        let left = random(), id = END;
        for (const word of restrict(logits, temperature, topK, topP)) {
          left -= word.drawn;
          id = word.id;
          if (left <= 0) break;
        }
        if (id === END) break;
        text.push(this.vocab[id]);
        logits = this.read(id, cache);
      }
      return text;
    }
  }

  // The three dials: the words that can be drawn, best first, each with its probability before
  // top-k and top-p (`p`) and after (`drawn`).
  function restrict(logits, temperature = 1, topK = Infinity, topP = 1) {
    const p = softmax(Float64Array.from(logits, z => z / temperature));
    let words = top(Math.min(topK, p.length), p).map(id => ({ id, p: p[id] }));
    const total = list => list.reduce((sum, word) => sum + word.p, 0);
    const all = total(words);
    let before = 0; // probability of all better ones
    if (topP < 1)
      words = words.filter((word, rank) => {
        const stays = rank === 0 || before < topP;
        before += word.p / all;
        return stays;
      });
    const sum = total(words);
    return words.map(word => ({ ...word, drawn: word.p / sum }));
  }

  // --- Subwords (4.1) -------------------------------------------------------------------
  // A text is taken as bytes. Each has a printable letter of its own; a space is Ġ.

  const letters = (() => {
    const shown = b => (b > 32 && b < 127) || (b > 160 && b < 173) || b > 173;
    let next = 256;
    return Array.from({ length: 256 }, (_, b) => String.fromCharCode(shown(b) ? b : next++));
  })();
  const byteOf = new Map(letters.map((letter, b) => [letter, b]));
  const PIECE = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

  class Subwords {
    constructor(merges) { // each merge, "a b", made a token, in this order
      const merged = merges.map(pair => pair.replace(" ", ""));
      this.vocab = [...SPECIALS, ...[...letters].sort(), ...merged];
      this.ids = new Map(this.vocab.map((token, id) => [token, id]));
      this.rank = new Map(merges.map((pair, rank) => [pair, rank]));
      this.known = new Map(); // pieces that were cut before
    }

    // Apply the earliest of the learned merges as long as there is one.
    cut(piece) {
      const parts = Array.from(new TextEncoder().encode(piece), b => letters[b]);
      for (;;) {
        let best = Infinity, at = -1;
        for (let i = 0; i + 1 < parts.length; i++) {
          const rank = this.rank.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity;
          if (rank < best) [best, at] = [rank, i];
        }
        if (at < 0) return parts.map(part => this.ids.get(part) ?? UNK);
        parts.splice(at, 2, parts[at] + parts[at + 1]);
      }
    }

    encode(text) {
      return (` ${text}`.match(PIECE) ?? []).flatMap(piece => {
        if (!this.known.has(piece)) this.known.set(piece, this.cut(piece));
        return this.known.get(piece);
      });
    }

    // The text of some subwords, a space before each word; whole characters need all their bytes.
    decode(ids) {
      const bytes = ids.flatMap(id => Array.from(this.vocab[id], c => byteOf.get(c) ?? []));
      return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
    }
  }

  // --- What of a line the model reads (transformer_workshop/text/spelling.py) ------------------

  const UNSEEN = /[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;
  const JOINERS = /(^|[\u0000-\u058f\u1e00-\u206f])[\u200c\u200d]+/g;
  const tidied = line =>
    line.normalize("NFC").replace(UNSEEN, "").replace(JOINERS, "$1").trim().replace(/\s+/g, " ");

  // A sentence ends at a full stop, but not behind an abbreviation, an initial, or a number of
  // two digits, nor before a small letter or a digit.
  const STOP = /(?<![.\d])[.!?](?!\.)[\p{P}\s]*/gu;
  const OPENING = /\s+[¿¡„«»“‚‘([]*\s*$/;
  const NO_END = /(?<![\p{L}\p{N}_])([B-DF-HJ-NP-TV-Z][b-df-hj-np-tv-xz]{1,3}|\p{L}|\d{1,2})\.$/u;

  function splitSentences(line, abbreviations) {
    const abbreviates = word => {
      const bare = word.replace(/^[¿¡„«»“‚‘(["']+/, "");
      return bare.endsWith(".") && (NO_END.test(bare) || abbreviations.has(bare.toLowerCase()));
    };
    const sentences = [];
    let begun = 0;
    for (const stop of line.matchAll(STOP)) {
      const blank = line.slice(0, stop.index + stop[0].length).match(OPENING);
      if (!blank || blank.index <= begun) continue;
      const first = line.slice(blank.index).match(/[\p{L}\p{N}]/u)?.[0];
      if (!first || !/\p{L}/u.test(first) || /\p{Ll}/u.test(first)) continue;
      if (abbreviates(line.slice(begun, blank.index).split(" ").at(-1))) continue;
      sentences.push(line.slice(begun, blank.index).trim());
      begun = blank.index;
    }
    return [...sentences, line.slice(begun).trim()].filter(Boolean);
  }

  // In a sentence that is all capitals, or has none, words get ordinary case; umlauts and ß that
  // were typed as ae, oe, ue, and ss come back. Words that are subwords stay as they are.
  const WORD = /[\p{L}\p{Nl}\p{No}]+(?:[\u0300-\u036f]+[\p{L}\p{Nl}\p{No}]*)*/gu;
  const TYPED = [["ae", "ä"], ["oe", "ö"], ["ue", "ü"], ["Ae", "Ä"], ["Oe", "Ö"], ["Ue", "Ü"], ["ss", "ß"]];
  const lower = text => text.toLowerCase(), upper = text => text.toUpperCase();
  const capital = word => upper(word[0]) + lower(word.slice(1));

  function respell(sentence, subwords) {
    const cased = lower(sentence) !== upper(sentence);
    const recase = cased && (sentence === lower(sentence) || sentence === upper(sentence));
    const words = sentence.match(WORD) ?? [];
    const count = word => subwords.encode(word).length;
    const known = word => count(word) === 1;
    // Of spellings with as few subwords, the more frequent is taken: frequent ones have low ids.
    // A rare word with a capital comes first, because it is most often a noun or a name.
    const rank = word => {
      const ids = subwords.encode(word);
      return ids.length > 1 && word === capital(word) && word !== lower(word) ? 0 : ids[0];
    };
    const before = (a, b) => count(a) - count(b) || rank(a) - rank(b);
    // Is each umlaut part of something that the model has seen?
    const possible = word => {
      if (known(word)) return true;
      const pieces = subwords.encode(word).map(id => subwords.decode([id]).replace(/^ /, ""));
      return !pieces.some((piece, i) =>
        ([...piece].length < 3 && /[äöüß]/i.test(piece)) ||
        (i > 0 && /^[äöü]/.test(piece) && [...pieces[i - 1]].length < 2));
    };
    const best = word => {
      if (known(word) && !recase) return word;
      const cases = new Set(recase ? [word, lower(word), capital(word)] : [word]);
      const [plain] = [...cases].sort((a, b) =>
        before(a, b) || (a !== word) - (b !== word) || (a < b ? -1 : 1));
      const spellings = new Set(cases);
      for (const [typed, letter] of TYPED)
        for (const spelling of [...spellings]) spellings.add(spelling.replaceAll(typed, letter));
      const others = [...spellings].filter(each => !cases.has(each) && possible(each));
      if (known(plain) || !others.length) return plain;
      const [chosen] = others.sort((a, b) => before(a, b) || (a < b ? -1 : 1));
      // One subword less can be chance; a known word isn't.
      return count(plain) - count(chosen) >= (known(chosen) ? 1 : 2) ? chosen : plain;
    };
    if (recase && words.every(known)) return sentence;
    const respelled = sentence.replace(WORD, best), first = respelled.match(WORD)?.[0];
    if (!recase || !first) return respelled;
    const asTyped = sentence === upper(sentence) && first === words[0];
    const fits = !asTyped && count(capital(first)) <= count(first);
    return fits ? respelled.replace(first, capital(first)) : respelled;
  }

  // --- The translator (chapters 1 and 4) -------------------------------------------------

  const penalized = (logP, length, alpha) => logP / ((5 + length) / 6) ** alpha;
  const NEGATIVES = /(?<![\p{L}\p{N}_])(kein[\p{L}\p{N}_]*|nichts?|nie|niemals|niemand[\p{L}\p{N}_]*|nirgend[\p{L}\p{N}_]*|ohne|weder)(?![\p{L}\p{N}_])/iu;
  const NEGATIVES_IN_ENGLISH = /\b(not?|none|nobody|nothing|nowhere|never|neither|nor|cannot|without)\b|n['’]t\b|less\b|\bbare/i;

  // German numbers from 2 on, and what can stand for them in English
  const NUMBERS = {
    zwei: "two|both|couple|pair|second", drei: "three|third", vier: "four|fourth",
    fünf: "five|fifth", sechs: "six", sieben: "seven", acht: "eight", neun: "nine", zehn: "ten",
    elf: "eleven", zwölf: "twelve|dozen", dreizehn: "thirteen", vierzehn: "fourteen",
    fünfzehn: "fifteen", sechzehn: "sixteen", siebzehn: "seventeen", achtzehn: "eighteen",
    neunzehn: "nineteen", zwanzig: "twenty",
  };
  const losesNumber = (source, output) => Object.entries(NUMBERS).some(([german, english], i) =>
    new RegExp(`(?<![\\p{L}\\p{N}_])${german}(?![\\p{L}\\p{N}_])`, "iu").test(source)
    && !new RegExp(`\\b(${english}|${i + 2})\\b`, "i").test(output));

  // Do one to three tokens come three times running, or more of them twice?
  function repeats(tokens) {
    for (let width = 1; width <= Math.min(30, tokens.length >> 1); width++)
      for (let i = width, equal = 0; i < tokens.length; i++) {
        equal = tokens[i] === tokens[i - width] ? equal + 1 : 0;
        if (equal === width * (width < 4 ? 2 : 1)) return true;
      }
    return false;
  }

  class Translator {
    constructor(held) {
      Object.assign(this, held.sizes); // N, d, h, maxTokens
      this.threshold = held.threshold;
      this.abbreviations = new Set(held.abbreviations);
      this.subwords = new Subwords(held.merges);
      this.W = load(held);
    }

    sentences(line) {
      return splitSentences(tidied(line), this.abbreviations)
        .map(sentence => respell(sentence, this.subwords));
    }

    ids(sentence) {
      return [START, ...this.subwords.encode(tidied(sentence)), END];
    }

    embed(ids) {
      const { W, d } = this, table = W["src_embed.0.lut.weight"]; // one for both languages
      return ids.map(id => table.slice(id * d, (id + 1) * d).map(x => x * Math.sqrt(d)));
    }

    // Read the source once. Of it, each layer of the decoder needs keys and values.
    encode(ids, watch = nobody) {
      const { W, N, d, h } = this, xs = this.embed(ids);
      watch("src_embed", { out: xs });
      for (let layer = 0; layer < N; layer++) {
        const name = `encoder.layers.${layer}`, attn = `${name}.self_attn`;
        sublayer(xs, W[`${name}.sublayer.0.norm.weight`], x => {
          const [query, key, value] = project(W, attn, x, d / h, [...ids.keys()]);
          const weights = x.map(() => []);
          const out = join(W, attn, query.map((q, j) => attention(q, key, value, d / h, 1, weights[j])));
          watch(attn, { x, query, key, value, weights, out });
          return out;
        });
        sublayer(xs, W[`${name}.sublayer.1.norm.weight`], x => this.feed(name, x, watch));
      }
      const memory = xs.map(x => norm(x, W["encoder.norm.weight"]));
      watch("encoder", { out: memory });
      return Array.from({ length: N }, (_, layer) => {
        const name = `decoder.layers.${layer}.src_attn`;
        const keys = linear(W[`${name}.linears.1.weight`], memory)
          .map(key => norm(key, W[`${name}.k_norm.weight`]));
        const values = linear(W[`${name}.linears.2.weight`], memory);
        watch(name, { key: keys, value: values });
        return { keys, values };
      });
    }

    feed(name, x, watch) {
      const out = swiglu(this.W, `${name}.feed_forward`, x);
      watch(`${name}.feed_forward`, { x, out });
      return out;
    }

    // For each hypothesis, read its last word, and return log-probabilities of the next one.
    // `looks[j][layer][head]` becomes the cross-attention of hypothesis j.
    step(ids, caches, source, looks = ids.map(() => []), watch = nobody) {
      const { W, N, d, h } = this, xs = this.embed(ids);
      watch("tgt_embed", { out: xs });
      for (let layer = 0; layer < N; layer++) {
        const name = `decoder.layers.${layer}`, cross = `${name}.src_attn`;
        sublayer(xs, W[`${name}.sublayer.0.norm.weight`], ys =>
          attendOnwards(W, `${name}.self_attn`, ys, d / h, 1, caches, layer, watch));
        sublayer(xs, W[`${name}.sublayer.1.norm.weight`], x => {
          const query = linear(W[`${cross}.linears.0.weight`], x)
            .map(each => norm(each, W[`${cross}.q_norm.weight`]));
          const { keys, values } = source[layer], weights = x.map(() => []);
          weights.forEach((each, j) => looks[j].push(each));
          const out = join(W, cross, query.map((q, j) => attention(q, keys, values, d / h, 1, weights[j])));
          watch(cross, { x, query, weights, out });
          return out;
        });
        sublayer(xs, W[`${name}.sublayer.2.norm.weight`], x => this.feed(name, x, watch));
      }
      for (const cache of caches) cache.length++;
      const out = xs.map(x => norm(x, W["decoder.norm.weight"]));
      const logP = linear(W["src_embed.0.lut.weight"], out).map(logSoftmax);
      watch("generator", { x: out, out: logP });
      return logP;
    }

    // All matrices on the way from a source to an output: {part: {matrix: rows}}. Parts have
    // PyTorch's names; weights of attention are lists, one for each head.
    trace(src, tgt) {
      const seen = {}, watch = (part, matrices) => {
        for (const [name, rows] of Object.entries(matrices))
          ((seen[part] ??= {})[name] ??= []).push(...rows.map(row => row.slice()));
      };
      const source = this.encode(src, watch), caches = [emptyCache(this.N)];
      for (const id of tgt) this.step([id], caches, source, [[]], watch);
      return seen;
    }

    limit(src) { // how long an output may be, with its start symbol
      return Math.min(3 * src.length + 20, this.maxTokens);
    }

    // Beam search for the ids of a sentence (4.5). Yields what each step keeps, best first, and
    // returns the winner. A hypothesis knows the one that it continues. The decoder never looks
    // at source positions in `hidden`.
    *search(src, { beam = 5, alpha = 1, hidden = [] } = {}) {
      const seen = list => list.filter((_, position) => !hidden.includes(position));
      const source = this.encode(src)
        .map(({ keys, values }) => ({ keys: seen(keys), values: seen(values) }));
      const limit = this.limit(src), finished = [];
      let open = [{ id: START, logP: 0, length: 0, parent: null, cache: emptyCache(this.N), looks: [] }];
      for (;;) {
        const logPs = this.step(open.map(each => each.id), open.map(each => each.cache), source, open.map(each => each.looks));
        const candidates = open.flatMap((parent, j) => top(beam + 1, logPs[j]).map(id =>
          ({ id, logP: parent.logP + logPs[j][id], length: parent.length + 1, parent })));
        candidates.sort((a, b) => b.logP - a.logP);
        const ended = candidates.slice(0, beam).filter(each => each.id === END);
        open = candidates.filter(each => each.id !== END).slice(0, beam);
        for (const each of [...ended, ...open]) each.score = penalized(each.logP, each.length, alpha);
        finished.push(...ended);
        const best = open[0], longest = penalized(best.logP, limit - 1, alpha);
        const over = finished.some(each => each.score >= Math.max(best.score, longest)) ||
          finished.filter(each => each.score >= best.score).length >= beam ||
          best.length + 1 === limit;
        yield candidates.filter(each => ended.includes(each) || open.includes(each));
        if (over)
          return [...finished, best].reduce((a, b) => (b.score > a.score ? b : a));
        for (const each of open) Object.assign(each, { cache: copyOf(each.parent.cache), looks: [] });
      }
    }

    text(ids) {
      const text = this.subwords.decode(ids.filter(id => id !== END));
      return text.replace(/^ /, "").normalize("NFC");
    }

    // The geometric mean of the probabilities of its tokens
    confidence(hypothesis) {
      return Math.exp(hypothesis.logP / hypothesis.length);
    }

    // What shows that an output isn't a translation, however sure the model is
    fault(src, output) {
      if (repeats(output) && !repeats(src)) return "it repeats itself";
      if (output.length >= this.limit(src) - 1) return `it was cut after ${output.length} tokens`;
      if (3 * output.length < src.length - 2) return "much of the source is missing";
      const negated = NEGATIVES.test(this.text(src.slice(1, -1)));
      if (negated && !NEGATIVES_IN_ENGLISH.test(this.text(output)))
        return "a negation of the source is missing from it";
      if (losesNumber(this.text(src.slice(1, -1)), this.text(output)))
        return "a number of the source is missing from it";
      return "";
    }

    doubt(confidence, fault) {
      const shown = (Math.floor(1000 * confidence) / 1000).toFixed(3);
      return fault || (confidence < this.threshold &&
        `confidence ${shown}, below ${this.threshold.toFixed(3)}`) || "";
    }
  }

  // --- What a page asks for ---------------------------------------------------------------

  // Translate a line, sentence by sentence. Yields a report after each step, and returns the
  // last: text, confidence, and doubt are the whole line's; the search and what the decoder
  // looked at are those of the last sentence, which someone may still be writing.
  function* translate(translator, line, options) {
    const layer = 1; // its cross-attention finds the words best; the report has its heads' mean
    const piece = id => (id === END ? "" : translator.subwords.decode([id]));
    const report = { line, text: "", confidence: 1, doubt: "", source: [], looks: [], steps: [], path: [] };
    let fault = "";
    for (const sentence of translator.sentences(line)) {
      const src = translator.ids(sentence), rows = [[]], before = report.text && `${report.text} `;
      if (src.length > translator.maxTokens)
        return { ...report, doubt: `it has ${src.length} tokens, the model takes ${translator.maxTokens}` };
      Object.assign(report, { source: src.slice(1, -1).map(piece), looks: [], steps: [], path: [] });
      const search = translator.search(src, options);
      const seen = [...src.keys()].filter(position => !options?.hidden?.includes(position));
      const written = hypothesis => {
        const ids = [];
        for (let each = hypothesis; each.parent; each = each.parent) ids.unshift(each.id);
        return ids;
      };
      for (;;) {
        const { value, done } = search.next();
        if (!done) {
          report.steps.push(value.map(each => ({
            word: piece(each.id), ended: each.id === END, logP: each.logP,
            parent: Math.max(0, rows.at(-1).indexOf(each.parent)),
          })));
          rows.push(value);
          report.text = before + translator.text(written(value[0]));
          yield report;
          continue;
        }
        for (let each = value; each.parent; each = each.parent) {
          report.path.unshift(rows[each.length].indexOf(each));
          const heads = each.parent.looks[layer];
          report.looks.unshift(report.source.map((_, s) => seen.includes(s + 1)
            ? heads.reduce((sum, head) => sum + head[seen.indexOf(s + 1)], 0) / heads.length : 0));
        }
        const ids = written(value).filter(id => id !== END);
        if (options?.trace) {
          const seen = translator.trace(src, [START, ...ids]);
          const likely = seen.generator.out.map(row => top(6, row).map(id => ({ word: piece(id), ended: id === END, p: Math.exp(row[id]) })));
          report.trace = { ...seen, generator: { x: seen.generator.x }, likely, written: ids.map(piece) };
        }
        report.text = before + translator.text(ids);
        report.confidence = Math.min(report.confidence, translator.confidence(value));
        fault ||= translator.fault(src, ids);
        break;
      }
    }
    return { ...report, doubt: translator.doubt(report.confidence, fault) };
  }

  // Answer a page from a worker. A figure's newer question ends the search for its older one.
  function serve() {
    let translator;
    const newest = {}; // the question of each figure
    const breath = new MessageChannel(); // lets a message in, sooner than setTimeout
    breath.port1.start();
    const pause = () => new Promise(done => {
      breath.port1.addEventListener("message", done, { once: true });
      breath.port2.postMessage(0);
    });
    onmessage = async ({ data: { held, figure, number, line, options } }) => {
      if (held) {
        translator = new Translator(held);
        postMessage({ ready: true });
        return;
      }
      newest[figure] = number;
      for (const search = translate(translator, line, options); ;) {
        const { value: report, done } = search.next();
        postMessage({ figure, number, done, report });
        if (done) return;
        await pause();
        if (number !== newest[figure]) return;
      }
    };
  }

  return { GPT, Translator, restrict, translate, serve, START, END, UNK };
}
