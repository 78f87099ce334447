// The live figures. transformer.js computes; this file loads it, asks it, and draws.
// Each figure is a <div class="live" data-figure="…"> that site/build.py has placed.
(() => {
  const WORDS = {
    en: {
      german: "Your German sentence", typo: "a typo, on purpose", clear: "Clear", example: "Examples", confidence: "confidence",
      rely: why => `don't rely on this translation (${why})`, faults: {},
      load: size => `Load the model (${size} MB)`, loading: "Loading the model …",
      failed: "The model didn't load.",
      english: "This looks like English. The model reads German: tap an example, or write “Ein Hund schläft.”",
      ribbons: "Where the model looked when it wrote each word",
      threads: "Threads show where the model looked as it wrote each word: point at a word, or tap it, to see its own. The longer an underline, the surer the word; red is below the notch.",
      beam: "The beam: what each step of the search keeps, best first",
      columns: "The search: each column keeps the best beginnings, and the blue one wins. ● is an end, ␣ a space; a piece with a hyphen goes on with the word before it.",
      width: "beam size", alpha: "length penalty α", greedy: "greedy",
      outputs: ["output", "log P", "tokens", "score"],
      same: "Greedy decoding writes the same.",
      differ: (n, theirs, ours) => `At step ${n}, greedy decoding (orange) takes “${theirs}”. The output that wins goes on with “${ours}”.`,
      start: "The beginning of a caption", end: "(end)", temperature: "temperature",
      topK: "top-k", topP: "top-p", draw: "Draw the rest", back: "Take back a word",
      unknown: words => `It doesn't know: ${words}.`, all: "all",
      hide: "Words to hide from the decoder", tap: "Click a word above to hide it: what will be written without it?",
      open: "Compute what is in each box", layer: "layer", head: "head",
      of: line => `“${line}”, in the translator above`, likely: "likeliest next pieces, after each piece",
      whole: "all words seen", cut: "words hidden",
      sides: ["Encoder", "Decoder"],
      matrices: { x: "in, normalized", query: "queries", key: "keys", value: "values", weights: "weights", out: "out" },
      boxes: { // the name of each kind, and what it does
        embed: ["Embeddings", "Each piece of a word has a row of the table, times √256. No positions are added: this translator turns queries and keys (6.3)."],
        self_attn: ["self_attn", "Each piece asks all pieces that it may see; a row of the weights is what it heard from each. The output is added to the residual stream."],
        src_attn: ["src_attn", "The output asks the source: queries are made of what is written, keys and values of the memory."],
        feed_forward: ["feed_forward", "A network for each piece by itself, here with a gate (6.5). The output is added to the residual stream."],
        memory: ["memory", "What the encoder's last layer leaves, normalized: all that the decoder knows of the source."],
        generator: ["Generator", "Each row is multiplied by the table of the embeddings; the softmax makes probabilities of 8,000 pieces."],
      },
    },
    zh: {
      german: "你的德语句子", typo: "故意写错一个字母", clear: "清空", example: "例句", confidence: "置信度",
      rely: why => `这句译文靠不住（${why}）`,
      faults: {
        "it repeats itself": "译文在重复", "much of the source is missing": "原文大半没有译出",
        "a negation of the source is missing from it": "漏译了原文的否定",
        "a number of the source is missing from it": "漏译了原文的数字",
        "it was cut after": "译文太长，只保留", "it has": "句子有",
        " tokens, the model takes": " 个词元，模型的上限是", " tokens": " 个词元",
        "confidence": "置信度", ", below": "，低于",
      },
      load: size => `加载模型（${size} MB）`, loading: "正在加载模型……", failed: "模型没有加载成功。",
      english: "这看起来是英语。模型读的是德语：点一个例句，或者写“Ein Hund schläft.”",
      ribbons: "模型写每个词时看了哪里",
      threads: "线表示模型写每个词时看了哪里：指向或点一个词，就只看它的线。下划线越长，模型对这个词越有把握；红色表示低于刻线。",
      beam: "束搜索：每一步留下的候选，最好的在最上面",
      columns: "搜索：每一列是一步留下的候选，最好的在最上面，蓝色的胜出。● 表示结束，␣ 表示空格，带连字符的接着前一个词。",
      width: "束宽", alpha: "长度惩罚 α", greedy: "贪心",
      outputs: ["输出", "log P", "词元数", "得分"],
      same: "贪心解码写出的句子也一样。",
      differ: (n, theirs, ours) => `到第 ${n} 步，贪心解码（橙色）选“${theirs}”，胜出的译文接的是“${ours}”。`,
      start: "一条图片说明的开头", end: "（结束）", temperature: "温度",
      topK: "top-k", topP: "top-p", draw: "接着往下抽", back: "退回一个词",
      unknown: words => `它不认识：${words}。`, all: "全部",
      hide: "不让解码器看到的词", tap: "点上面的一个词把它遮住：没有它，会写出什么？",
      open: "算出每个方框里的数", layer: "层", head: "头",
      of: line => `“${line}”，用的是上面的翻译器`, likely: "每个词元之后，最可能的下一个词元",
      whole: "所有的词都看得到", cut: "遮住几个词",
      sides: ["编码器", "解码器"],
      matrices: { x: "输入（已归一化）", query: "查询", key: "键", value: "值", weights: "权重", out: "输出" },
      boxes: {
        embed: ["嵌入", "每个词元在表里有一行，再乘以 √256。这里不加位置编码：这个翻译器旋转查询和键（6.3）。"],
        self_attn: ["自注意力", "每个词元向它看得到的所有词元提问，权重的一行就是它从每个词元听到多少。输出加进残差流。"],
        src_attn: ["交叉注意力", "译文向原文提问：查询来自已经写出的词元，键和值来自记忆。"],
        feed_forward: ["前馈网络", "逐个词元计算的网络，这里带一个门（6.5）。输出加进残差流。"],
        memory: ["记忆", "编码器最后一层留下的向量，已归一化：解码器对原文所知道的全部。"],
        generator: ["生成器", "每一行与嵌入表相乘，softmax 得出 8,000 个词元的概率。"],
      },
    },
  }[document.documentElement.lang.slice(0, 2)];
  const root = document.currentScript.src.replace(/live\.js.*/, "");

  const TYPO = "Klaviwr"; // in one of the examples

  // A subword that goes on with a word has a hyphen; one that begins a word has a space.
  const shown = piece => (/^\p{L}/u.test(piece) ? `‑${piece}` : piece.trim() || "␣");
  const number = (value, digits) => value.toFixed(digits).replace("-", "−");

  // What one wrote is there when one comes back.
  const kept = (() => { try { return sessionStorage; } catch { return {}; } })();

  // --- loading ---
  const script = name => new Promise((done, failed) =>
    document.head.append(element("script", { src: root + name, onload: done, onerror: failed })));
  const once = load => { let kept; return () => (kept ??= load().catch(error => { kept = undefined; throw error; })); };

  // On a phone or a slow connection, a button asks first; from disk, nothing is fetched.
  const { saveData, effectiveType = "4g" } = navigator.connection ?? {};
  const asks = location.protocol !== "file:" &&
    (saveData || effectiveType !== "4g" || matchMedia("(max-width: 46em), (pointer: coarse)").matches);

  const gpt = once(async () => {
    await Promise.all([script("transformer.js"), script("live/gpt.js")]);
    const { GPT, ...rest } = makeTransformer();
    return { model: new GPT(LIVE.gpt), ...rest };
  });

  // The translator works in a worker, made of text, so that the page never waits for it.
  const waiting = new Map(); // the newest question of each figure
  let asked = 0;
  const translator = once(async () => {
    await Promise.all([script("transformer.js"), script("live/translator.js")]);
    const program = new Blob([`(${makeTransformer})().serve();`], { type: "text/javascript" });
    const worker = new Worker(URL.createObjectURL(program));
    await new Promise(ready => {
      worker.onmessage = ready;
      worker.postMessage({ held: LIVE.translator });
      delete LIVE.translator;
    });
    worker.onmessage = ({ data: { figure, number, done, report } }) => {
      const question = waiting.get(figure);
      if (question.number === number) question.hear(report, done);
    };
    return worker;
  });

  // Show each report on a line, and return the last; only the newest question of a figure gets it.
  async function ask({ dataset: { figure } }, line, options, show = () => {}) {
    const question = { number: ++asked };
    waiting.set(figure, question);
    const worker = await translator();
    return new Promise(done => {
      question.hear = (report, last) => {
        show(report, last);
        if (last) done(report);
      };
      if (waiting.get(figure) === question) worker.postMessage({ figure, number: question.number, line, options });
    });
  }

  // What figures with a text box share: their box, examples, the button, and when to load.
  // `answer(line)` is called when the model is there, `stored(report)` before, for those `known`.
  function box(figure, { label, value, examples, known = [], size, load, answer, stored }) {
    const input = figure.querySelector("input") ?? element("input", { value, defaultValue: value });
    const first = input.defaultValue, name = `live ${figure.dataset.figure}`;
    if (input.value === first) input.value = kept[name] ?? first; // else, a key was faster than this script
    Object.assign(input, { type: "text", spellcheck: false, autocomplete: "off", placeholder: label });
    input.setAttribute("aria-label", label);
    const status = element("p", { className: "live-status" });
    status.setAttribute("role", "status");
    let ready = false, wanted = false;
    const begin = async () => {
      wanted = true;
      status.textContent = WORDS.loading;
      try {
        await load();
        ready = true;
        status.textContent = "";
      } catch {
        wanted = false;
        status.textContent = WORDS.failed;
        return;
      }
      answer(input.value);
    };
    const button = element("button", { type: "button", textContent: WORDS.load(size), onclick: begin });
    const typed = () => {
      kept[name] = input.value;
      figure.classList.toggle("live-empty", !input.value.trim());
      figure.classList.add("live-waits"); // what is shown belongs to another text
      const report = known.find(each => each.line === input.value);
      if (ready) answer(input.value);
      else if (report) stored(report);
      else if (!wanted && asks) status.replaceChildren(button);
      else if (!wanted) begin();
    };
    const clear = element("button", { type: "button", className: "live-clear", textContent: "×", onclick() {
      input.value = "";
      typed();
      input.focus();
    } });
    clear.setAttribute("aria-label", WORDS.clear);
    if (!figure.contains(input)) figure.prepend(input); // moved, it would lose the focus
    input.after(clear, status);
    if (examples) {
      const choices = element("div", { className: "live-examples" }, ...examples.map(each =>
        element("button", { type: "button", onclick() {
          input.value = each.line;
          typed();
        } }, each.line, ...(each.line.includes(TYPO) ? [" ", element("small", { textContent: `(${WORDS.typo})` })] : []))));
      choices.setAttribute("role", "group");
      choices.setAttribute("aria-label", WORDS.example);
      clear.after(choices);
    }
    input.addEventListener("input", typed);
    if (input.value !== first) queueMicrotask(typed); // once the figure is whole
    return { input, typed, begin };
  }

  // --- drawing ---
  const pen = document.createElement("canvas").getContext("2d");
  const SANS = getComputedStyle(document.body).getPropertyValue("--sans");
  const SIZE = 15, wide = word => (pen.font = `${SIZE}px ${SANS}`, pen.measureText(word).width);
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  // The words of a sentence in a row or a column, each subword with its place.
  function row(pieces, room) {
    const widths = pieces.map(piece => wide(piece.trim())), inside = 5; // pixels
    const starts = pieces.map((piece, i) => i > 0 && piece.startsWith(" "));
    const total = widths.reduce((a, b) => a + b, 0) + inside * pieces.length;
    const gap = Math.min(36, Math.max(9, (room - total) / Math.max(1, starts.filter(Boolean).length)));
    let x = 0;
    const places = pieces.map((piece, i) => {
      if (starts[i]) x += gap;
      const place = { text: piece.trim(), x, width: widths[i], joined: i > 0 && !starts[i] };
      x += widths[i] + inside;
      return place;
    });
    return { pieces, places, width: x };
  }

  // The words that a search has written, each with its probability.
  const written = ({ steps, path }) => path.map((index, n) => {
    const chosen = steps[n][index], before = n ? steps[n - 1][path[n - 1]].logP : 0;
    return { ...chosen, p: Math.exp(chosen.logP - before) };
  }).filter(each => !each.ended);

  // A translation whose last sentence, the one searched, has its doubtful words underlined.
  function marked(report) {
    const words = written(report), last = words.map(each => each.word).join("").trim();
    if (!last || !report.text.endsWith(last)) return [report.text || "\u00a0"];
    return [report.text.slice(0, -last.length), ...words.flatMap(({ word, p }, i) => {
      const text = word.trimStart(), space = i && text !== word ? " " : "";
      return [space, p < LIVE.stored.threshold ? element("u", { textContent: text }) : text];
    })];
  }

  // The threads of one word alone: of the one with a mouse on it, else of the one chosen by a tap
  // or by keyboard, until one taps elsewhere.
  let chosen;
  const alone = (svg, { key, i } = {}) => svg?.querySelectorAll(".live-curves path").forEach(each =>
    each.classList.toggle("live-dim", Boolean(key) && each.dataset[key] !== i));
  const choose = word => {
    alone(chosen?.ownerSVGElement);
    chosen = word;
    alone(chosen?.ownerSVGElement, chosen?.dataset);
  };
  addEventListener("pointerup", ({ target, pointerType }) => { // a finger that scrolls is canceled
    if (pointerType === "mouse") return;
    const word = target.closest?.(".live-word");
    choose(word === chosen ? undefined : word);
  });

  // A ribbon from each written word to what the model looked at, as wide as its weight.
  // A written word is underlined as far as the model was sure of it.
  function ribbons(place, report, hidden = new Set()) {
    const { source, looks } = report, words = written(report);
    const room = place.clientWidth, top = row(source, room), bottom = row(words.map(each => each.word), room);
    const across = Math.max(top.width, bottom.width) <= room;
    const height = across ? 150 : Math.max(source.length, words.length) * 27 + 6;
    const spot = (list, i, low) => {
      if (across) return { x: list.places[i].x + (room - list.width) / 2, y: low ? height - 12 : 18 };
      return { x: room * (low ? 0.68 : 0.32), y: 20 + i * 27 };
    };
    const curves = [];
    words.forEach((word, j) => looks[j]?.forEach((weight, s) => {
      if (weight < 0.05) return;
      const from = spot(top, s, false), to = spot(bottom, j, true);
      const half = list => list.width / 2;
      const a = across ? [from.x + half(top.places[s]), 25] : [room * 0.32 + 6, from.y - 5];
      const b = across ? [to.x + half(bottom.places[j]), height - 31] : [room * 0.68 - 8, to.y - 5];
      const bend = across ? `${a[0]},${height / 2} ${b[0]},${height / 2}` : `${room / 2},${a[1]} ${room / 2},${b[1]}`;
      curves.push(drawn("path", { d: `M${a} C${bend} ${b}`, "stroke-width": 0.5 + 8 * weight, "stroke-opacity": 0.12 + 0.6 * weight, "data-from": s, "data-to": j }));
    }));
    const write = (list, low) => list.places.map(({ text, width, joined }, i) => {
      const { x, y } = spot(list, i, low);
      const group = drawn("g", { class: `live-word ${!low && hidden.has(i) ? "live-hidden" : ""}`, "data-key": low ? "to" : "from", "data-i": i, tabindex: low || i ? -1 : 0, role: "option" });
      const x0 = across || low ? x : x - width;
      group.append(drawn("rect", { x: x0 - 5, y: y - 18, width: width + 10, height: 27, class: "live-room" }), drawn("text", { x, y, "text-anchor": across || low ? "start" : "end" }, across ? text : shown(list.pieces[i])));
      if (joined && across) group.append(drawn("line", { x1: x - 2.5, x2: x - 2.5, y1: y - 12, y2: y + 3, class: "live-seam" }));
      if (low) group.append(drawn("rect", { x, y: y + 5, width: Math.max(1, width * words[i].p), height: 2.5, class: words[i].p < LIVE.stored.threshold ? "live-unsure" : "" }));
      group.onpointerenter = ({ pointerType }) => pointerType === "mouse" && alone(group.ownerSVGElement, group.dataset);
      group.onpointerleave = () => alone(group.ownerSVGElement, chosen?.dataset);
      group.onfocus = () => choose(group);
      group.onblur = () => choose();
      return group;
    });
    const most = looks.map((each, j) => words[j] && `${words[j].word.trim()} ← ${source[each.indexOf(Math.max(...each))]?.trim()}`);
    const all = [...write(top, false), ...write(bottom, true)];
    all.forEach((each, i) => { // Tab leads to one, the arrow keys to the others
      each.onkeydown = ({ key }) => all[i + { ArrowRight: 1, ArrowLeft: -1 }[key]]?.focus();
    });
    place.replaceChildren(drawn("svg", { width: room, height, role: "listbox", "aria-label": `${WORDS.ribbons}: ${most.filter(Boolean).join(", ")}` },
      drawn("g", { class: "live-curves" }, ...curves), ...all), element("p", { className: "live-note", textContent: WORDS.threads }));
  }

  // The search, a column for each step. `greedy`: the words of greedy decoding.
  function beam(place, { steps, path }, { numbers = false, greedy = [] } = {}) {
    const high = numbers ? 38 : 25, column = [];
    let x = 2;
    for (const step of steps) {
      const width = Math.max(...step.map(each => wide(shown(each.word))), numbers ? 34 : 8);
      column.push({ x, width });
      x += width + 26;
    }
    const rows = Math.max(...steps.map(step => step.length), 1), lines = [], words = [];
    const on = steps.map(step => step.map(() => false)); // on greedy's way?
    steps.forEach((step, n) => step.forEach((each, i) => {
      const y = i * high + 17, wins = path[n] === i;
      on[n][i] = (n === 0 || on[n - 1][each.parent]) && greedy[n] === (each.ended ? "" : each.word);
      const kind = wins ? "live-wins" : on[n][i] ? "live-greedy" : "";
      if (n > 0) {
        const before = column[n - 1], parent = steps[n - 1][each.parent];
        const x0 = before.x + (parent.ended ? 8 : wide(shown(parent.word))) + 4, y0 = each.parent * high + 12, x1 = column[n].x - 4;
        lines.push(drawn("path", { d: `M${x0},${y0} C${x0 + 14},${y0} ${x1 - 14},${y - 5} ${x1},${y - 5}`, class: kind }));
      }
      words.push(each.ended
        ? drawn("circle", { cx: column[n].x + 4, cy: y - 5, r: 4, class: kind })
        : drawn("text", { x: column[n].x, y, class: kind }, shown(each.word)));
      if (numbers) words.push(drawn("text", { x: column[n].x, y: y + 13, class: "live-number" }, number(each.logP, 2)));
    }));
    lines.sort((a, b) => (a.getAttribute("class") === "live-wins") - (b.getAttribute("class") === "live-wins"));
    place.replaceChildren(drawn("svg", { width: Math.max(x, 40), height: Math.max(rows, 7) * high, role: "img", "aria-label": `${WORDS.beam}: ${steps.length}` }, ...lines, ...words));
    place.scrollLeft = path.length ? 0 : place.scrollWidth;
  }

  const inWords = doubt => Object.entries(WORDS.faults).reduce((all, [ours, theirs]) => all.replace(ours, theirs), doubt);
  function sureness(place, { confidence, doubt }, threshold) {
    place.classList.toggle("live-doubt", Boolean(doubt));
    place.style.setProperty("--sure", confidence || 0); // a refusal has none
    place.style.setProperty("--threshold", threshold);
    place.lastChild.textContent = doubt ? WORDS.rely(inWords(doubt)) : `${WORDS.confidence} ${confidence.toFixed(3)}`;
  }
  const gauge = () => element("div", { className: "live-sure" }, element("i"), element("span"));

  // Common words that only one of the two languages has.
  const ENGLISH = new Set("the a is are was and of with on at to his her this that i you it he they we my what how hello who".split(" "));
  const GERMAN = new Set("der die das ein eine einen einem einer ist sind und mit auf im den dem des er sie es ich wir zu von nicht".split(" "));
  const looksEnglish = line => {
    const words = line.toLowerCase().match(/\p{L}+/gu) ?? [], count = known => words.filter(word => known.has(word)).length;
    return count(ENGLISH) > count(GERMAN);
  };

  // --- the front page: write, and it is translated ---
  function translate(figure) {
    const { examples, threshold } = LIVE.stored;
    const text = figure.querySelector(".live-text"), sure = gauge();
    text.setAttribute("aria-live", "polite");
    const links = element("div", { className: "live-ribbons" }), tree = element("div", { className: "live-beam", tabIndex: 0 });
    tree.setAttribute("role", "group");
    tree.setAttribute("aria-label", WORDS.beam);
    const language = element("p", { className: "live-status live-doubt" });
    language.setAttribute("role", "status");
    // the address holds the sentence, to be sent on
    const said = new URLSearchParams(location.hash.slice(1)).get("say");
    if (said) kept["live translate"] = said;
    const known = [...examples, ...JSON.parse(kept["live report"] ?? "[]")];
    let now, playing;
    const show = (report, done) => {
      if (report.line !== input.value) return; // one has written on
      now = report;
      figure.classList.remove("live-waits");
      language.textContent = looksEnglish(report.line) ? WORDS.english : "";
      for (const part of [text, sure, links, tree]) part.setAttribute("aria-busy", !done);
      text.replaceChildren(...done ? marked(report) : [report.text || "\u00a0"]);
      if (report.steps.length) beam(tree, report);
      if (!done) return;
      if (!report.steps.length) [tree, links].forEach(each => each.replaceChildren()); // a refusal
      kept["live report"] = JSON.stringify([report]);
      sureness(sure, report, threshold);
      if (report.steps.length) ribbons(links, report);
    };
    const play = (example, from = 1) => {
      clearInterval(playing);
      if (still.matches) return show(example, true);
      let n = from;
      playing = setInterval(() => {
        const done = n >= example.steps.length;
        if (done) clearInterval(playing);
        show(done ? example : { ...example, steps: example.steps.slice(0, n), path: [] }, done);
        n++;
      }, 120);
    };
    const answer = line => {
      clearInterval(playing);
      if (line.trim()) ask(figure, line, {}, show);
    };
    const [trust, ...note] = figure.querySelectorAll(".live-note");
    figure.append(language, text, sure, trust, links, tree, element("p", { className: "live-note", textContent: WORDS.columns }), ...note);
    const { input } = box(figure, { label: WORDS.german, examples, known, size: 6, load: translator, answer, stored: play });
    if (figure.dataset.weights === "no") input.readOnly = true;
    input.addEventListener("input", () => history.replaceState(null, "", `#${new URLSearchParams({ say: input.value })}`));
    let width = links.clientWidth;
    new ResizeObserver(() => {
      if (width !== (width = links.clientWidth) && now?.looks.length) ribbons(links, now);
    }).observe(links);
    show(examples[0], true);
  }

  const slider = (name, min, max, step, value, show, changed) => {
    const output = element("output", { textContent: show(value) });
    const input = element("input", { type: "range", min, max, step, value, oninput() {
      output.textContent = show(+input.value);
      changed();
    } });
    return { label: element("label", {}, element("span", { textContent: name }), input, output), value: () => +input.value };
  };

  // --- chapter 4: the beam of a sentence of one's own, and what greedy decoding writes ---
  function search(figure) {
    let { beam: report, greedy } = LIVE.stored;
    const text = element("p", { className: "live-text" }), said = element("p");
    const tree = element("div", { className: "live-beam live-numbers", tabIndex: 0 }), table = element("table");
    tree.setAttribute("role", "group");
    tree.setAttribute("aria-label", WORDS.beam);
    text.setAttribute("aria-live", "polite");
    const score = (logP, length) => logP / ((5 + length) / 6) ** alpha.value();
    const written = ({ steps }, n, i) => {
      let words = "";
      for (let at = i, step = n; step >= 0; at = steps[step][at].parent, step--) words = steps[step][at].word + words;
      return words.trim();
    };
    const row = (all, kind, columns) => all.append(element("tr", { className: kind }, ...columns.map(each => element("td", { textContent: each }))));
    const show = () => {
      const own = report.path.map((i, n) => report.steps[n][i]);
      const theirs = greedy?.path.map((i, n) => greedy.steps[n][i]) ?? [];
      figure.classList.remove("live-waits");
      text.textContent = report.text || "\u00a0";
      beam(tree, report, { numbers: true, greedy: theirs.map(each => each.word) });
      for (const each of [said, table]) each.replaceChildren();
      if (!own.length) return;
      const outputs = report.steps.flatMap((step, n) => step.flatMap((each, i) => each.ended
        ? [{ text: written(report, n, i), logP: each.logP, length: n + 1 }] : []));
      outputs.sort((a, b) => score(b.logP, b.length) - score(a.logP, a.length));
      const body = element("tbody"), line = ({ text, logP, length }) => [text, number(logP, 2), length, number(score(logP, length), 2)];
      outputs.slice(0, 4).forEach((each, i) => row(body, i ? "" : "live-wins", line(each)));
      const whole = (all, n) => { // the word that a subword begins
        let word = all[n]?.word ?? "";
        while (/^\p{L}/u.test(all[++n]?.word)) word += all[n].word;
        return word.trim() || WORDS.end;
      };
      const differ = theirs.findIndex((each, n) => each.word !== own[n]?.word || each.ended !== own[n].ended);
      said.textContent = "";
      if (theirs.length && differ < 0) said.textContent = WORDS.same;
      if (differ >= 0) {
        const last = theirs.at(-1);
        row(body, "live-greedy", line({ text: `${WORDS.greedy}: ${greedy.text}`, logP: last.logP, length: theirs.length }));
        said.textContent = WORDS.differ(differ + 1, whole(theirs, differ), whole(own, differ));
      }
      table.replaceChildren(element("thead", {}, element("tr", {}, ...WORDS.outputs.map(each => element("th", { textContent: each })))), body);
    };
    const answer = async line => {
      if (!line.trim()) return;
      greedy = undefined;
      await ask(figure, line, { beam: width.value(), alpha: alpha.value() }, each => { report = each; show(); });
      greedy = await ask(figure, line, { beam: 1, alpha: alpha.value() });
      show();
    };
    const given = [...figure.children];
    const { typed } = box(figure, { label: WORDS.german, value: report.line, size: 6, load: translator, answer });
    const width = slider(WORDS.width, 1, 8, 1, 5, String, typed);
    const alpha = slider(WORDS.alpha, 0, 2, 0.1, 1, value => value.toFixed(1), typed);
    figure.append(element("div", { className: "live-dials" }, width.label, alpha.label), text, tree, said, element("div", { className: "table-wrapper" }, table), ...given);
    show();
  }

  // --- chapter 5: take words away from the decoder's attention ---
  function cut(figure) {
    let whole = LIVE.stored.cut, report = whole;
    const hidden = new Set(); // numbers of words
    const sides = [WORDS.whole, WORDS.cut].map(name => {
      const text = element("p", { className: "live-text" }), sure = gauge();
      text.setAttribute("aria-live", "polite");
      return { part: element("div", {}, element("small", { textContent: name }), text, sure), text, sure };
    });
    const words = element("div", { className: "live-examples live-words" }), links = element("div", { className: "live-ribbons" });
    words.setAttribute("role", "group");
    words.setAttribute("aria-label", WORDS.hide);
    const numbers = () => { // of the word that each piece of the source is in
      let at = -1;
      return whole.source.map((piece, i) => (i === 0 || piece.startsWith(" ") || /^\p{P}/u.test(piece) ? ++at : at));
    };
    const pieces = () => new Set(numbers().flatMap((word, i) => (hidden.has(word) ? [i] : [])));
    const show = () => {
      figure.classList.remove("live-waits");
      [whole, report].forEach((each, side) => {
        const other = new Set([whole, report][1 - side].text.split(" "));
        sides[side].text.replaceChildren(...each.text.split(" ").flatMap(word =>
          [other.has(word) ? word : element("b", { textContent: word }), " "]));
        sureness(sides[side].sure, each, LIVE.stored.threshold);
      });
      sides[1].sure.hidden = !hidden.size;
      if (!hidden.size) sides[1].text.replaceChildren(element("small", { textContent: WORDS.tap }));
      ribbons(links, report, pieces());
    };
    const buttons = () => {
      const names = [];
      numbers().forEach((word, i) => (names[word] = (names[word] ?? "") + whole.source[i]));
      words.replaceChildren(...names.map((name, word) => {
        const button = element("button", { type: "button", textContent: name.trim(), onclick() {
          hidden.has(word) ? hidden.delete(word) : hidden.add(word);
          button.setAttribute("aria-pressed", hidden.has(word));
          typed();
        } });
        button.setAttribute("aria-pressed", hidden.has(word));
        return button;
      }));
    };
    const answer = async line => {
      if (!line.trim()) return;
      if (line !== whole.line) {
        hidden.clear();
        report = whole = await ask(figure, line, {});
        buttons();
      } else if (hidden.size) {
        report = await ask(figure, line, { hidden: [...pieces()].map(i => i + 1) }); // <s> is in front
      } else report = whole;
      show();
    };
    const given = [...figure.children];
    const { typed } = box(figure, { label: WORDS.german, value: whole.line, size: 6, load: translator, answer });
    figure.append(words, element("div", { className: "live-sides" }, ...sides.map(each => each.part)), links, ...given);
    buttons();
    let width = links.clientWidth;
    show();
    new ResizeObserver(() => width !== (width = links.clientWidth) && show()).observe(links);
  }

  // --- chapter 6: the next word ---
  function next(figure) {
    let held;
    const bars = element("div", { className: "live-bars" }), said = element("p"), text = element("p", { className: "live-draw" });
    text.setAttribute("aria-live", "polite");
    const known = word => [word, word.toLowerCase()].find(each => held?.model.ids.has(each)) ?? word; // A MAN IS
    const split = line => (line.match(/\p{L}+|[^\s\p{L}]/gu) ?? []).map(known);
    const join = words => words.join(" ").replace(/ ([.,])/g, "$1");
    const dials = () => ({ temperature: temperature.value(), topK: topK.value() > 30 ? Infinity : topK.value(), topP: topP.value() });
    const put = words => { input.value = join(words); typed(); };
    const show = () => {
      if (!held) return;
      figure.classList.remove("live-waits");
      const { model, restrict, END } = held, words = split(input.value), { topK: k, topP: p, temperature: t } = dials();
      const { logits } = model.start(words), left = new Map(restrict(logits, t, k, p).map(each => [each.id, each.drawn]));
      const unknown = words.filter(word => !model.ids.has(word));
      said.textContent = unknown.length ? WORDS.unknown(unknown.join(", ")) : "";
      refocused(bars, () => bars.replaceChildren(...restrict(logits, t, 8).flatMap(each => {
        const drawn = left.get(each.id) ?? 0, word = each.id === END ? WORDS.end : model.vocab[each.id];
        const button = element("button", { type: "button", textContent: word, disabled: each.id === END, onclick: () => put([...words, word]) });
        const bar = element("div", { className: drawn ? "" : "live-gone" }, element("i"), element("span", { textContent: drawn ? drawn.toFixed(3) : "–" }));
        bar.style.setProperty("--p", each.p);
        bar.style.setProperty("--drawn", drawn);
        return [button, bar];
      })));
    };
    const draw = () => {
      if (!held) return;
      const words = split(input.value), given = join(words), all = join(held.model.write(words, dials()));
      text.replaceChildren(element("span", { textContent: given }), all.slice(given.length));
    };
    const load = async () => { held ??= await gpt(); };
    const { input, typed, begin } = box(figure, { label: WORDS.start, value: "A man is giving the dog a", size: 0.8, load, answer: show });
    const dial = value => value.toFixed(2).replace(/0$/, "");
    const temperature = slider(WORDS.temperature, 0.1, 2, 0.1, 1, dial, typed);
    const topK = slider(WORDS.topK, 1, 31, 1, 31, value => (value > 30 ? WORDS.all : value), typed);
    const topP = slider(WORDS.topP, 0.05, 1, 0.05, 1, dial, typed);
    const back = element("button", { type: "button", textContent: WORDS.back, onclick: () => put(split(input.value).slice(0, -1)) });
    const rest = element("button", { type: "button", textContent: WORDS.draw, onclick: draw });
    figure.append(element("div", { className: "live-dials" }, temperature.label, topK.label, topP.label), said, bars,
      element("div", { className: "live-examples" }, back, rest), text);
    if (asks) typed();
    else begin();
  }

  // --- the front page: what is in each box of the drawing, from block to matrix ---
  // For each box: its side, its part as PyTorch names it, its matrices with whose rows they have
  // (0: the source's, 1: the target's), and the lines of code that compute it.
  const attends = (rows, columns) => ({ x: rows, query: rows, key: columns, value: columns, weights: rows, out: rows });
  const BOXES = [
    { kind: "embed", side: 0, part: () => "src_embed", matrices: { out: 0 }, code: "Embeddings" },
    { kind: "self_attn", side: 0, part: n => `encoder.layers.${n}.self_attn`, matrices: attends(0, 0), code: "attention" },
    { kind: "feed_forward", side: 0, part: n => `encoder.layers.${n}.feed_forward`, matrices: { x: 0, out: 0 }, code: "SwiGLU" },
    { kind: "memory", side: 0, part: () => "encoder", matrices: { out: 0 }, code: "Encoder" },
    { kind: "embed", side: 1, part: () => "tgt_embed", matrices: { out: 1 }, code: "Embeddings" },
    { kind: "self_attn", side: 1, part: n => `decoder.layers.${n}.self_attn`, matrices: attends(1, 1), code: "attention" },
    { kind: "src_attn", side: 1, part: n => `decoder.layers.${n}.src_attn`, matrices: attends(1, 0), code: "attention" },
    { kind: "feed_forward", side: 1, part: n => `decoder.layers.${n}.feed_forward`, matrices: { x: 1, out: 1 }, code: "SwiGLU" },
    { kind: "generator", side: 1, part: () => "generator", matrices: { x: 1 }, code: "Generator" },
  ];
  // The same boxes in the drawing, in the order in which it has their names
  const NAMED = { MultiHeadedAttention: [1, 5, 6], PositionwiseFeedForward: [2, 7], Embeddings: [0, 4], Generator: [8] };

  function inside(figure) {
    let report, opened = BOXES[1], layer = 0, head = 0, matrix = "weights";
    const status = element("p", { className: "live-status" }), said = element("p", { className: "live-note" });
    const boxes = element("div", { className: "live-boxes" }), dials = element("div", { className: "live-dials" });
    const tells = element("p"), chain = element("div", { className: "live-chain" });
    const table = element("table"), code = element("pre", { tabIndex: 0 });
    status.setAttribute("role", "status");
    const names = () => [["<s>", ...report.source, "</s>"], ["<s>", ...report.trace.written]].map(all => all.map(each => each.trim() || "␣"));
    const press = (text, pressed, onclick, ...more) => element("button", { type: "button", onclick, ariaPressed: String(pressed) }, text, ...more);
    const rowsOf = name => {
      const rows = report.trace[opened.part(layer)][name];
      return name === "weights" ? rows.map(heads => heads[head]) : rows;
    };
    // Blue is above zero, orange below; a head's own numbers are framed.
    function image(rows, columns) {
      const width = columns ?? rows[0].length, canvas = element("canvas", { width, height: rows.length });
      const pen = canvas.getContext("2d"), pixels = pen.createImageData(width, rows.length);
      const most = Math.max(...rows.map(row => row.reduce((a, b) => Math.max(a, Math.abs(b)), 0)));
      rows.forEach((row, i) => row.forEach((value, j) => {
        const share = Math.sqrt(Math.abs(value) / most), [r, g, b] = value < 0 ? [213, 94, 0] : [0, 114, 178];
        pixels.data.set([r, g, b, 255 * share], 4 * (i * width + j));
      }));
      pen.putImageData(pixels, 0, 0);
      canvas.style.height = `${Math.max(48, Math.min(rows.length * (columns ? 22 : 12), 240))}px`;
      canvas.style.width = columns ? `${22 * columns}px` : "256px";
      return canvas;
    }
    const show = () => refocused(figure, renew);
    function renew() {
      const all = names(), { kind, part, matrices } = opened, [, does] = WORDS.boxes[kind];
      if (!(matrix in matrices)) matrix = "out" in matrices ? "out" : "x";
      boxes.replaceChildren(...WORDS.sides.map((name, side) => element("div", { role: "group", ariaLabel: name }, element("b", { textContent: name }),
        ...BOXES.filter(each => each.side === side).map(each => press(WORDS.boxes[each.kind][0], each === opened, () => { opened = each; matrix = "weights"; load(); })))));
      const layered = part(0) !== part(1), heads = report.trace[part(layer)].weights?.[0].length;
      const choose = (name, count, now, set) => element("div", { className: "live-choice", role: "group", ariaLabel: name }, `${name} `, ...Array.from({ length: count }, (_, n) => press(String(n + 1), n === now, () => { set(n); load(); })));
      dials.replaceChildren(...layered ? [choose(WORDS.layer, 3, layer, n => { layer = n; })] : [], ...heads ? [choose(WORDS.head, heads, head, n => { head = n; })] : []);
      tells.textContent = does;
      const keys = all[matrices.key]; // what the columns of the weights belong to
      chain.replaceChildren(...Object.keys(matrices).map(name => {
        const rows = rowsOf(name), columns = name === "weights" ? keys.length : undefined;
        const shape = name === "weights" ? `(${heads}, ${rows.length}, ${columns})` : `(${rows.length}, ${rows[0].length})`;
        return press(element("span", { textContent: `${WORDS.matrices[name]} ${shape}` }), name === matrix, () => { matrix = name; load(); }, image(rows, columns));
      }));
      const rows = rowsOf(matrix), weights = matrix === "weights";
      const columns = weights ? keys : Array.from({ length: 8 }, (_, i) => i + 1).concat("…");
      const from = !weights && /query|key|value/.test(matrix) && heads ? head * rows[0].length / heads : 0;
      const cells = row => weights ? columns.map((_, j) => row[j] === undefined ? "" : row[j].toFixed(2)) : [...Array.from(row.slice(from, from + 8), value => number(value, 2)), ""];
      table.replaceChildren(
        element("thead", {}, element("tr", {}, element("td"), ...columns.map(each => element("th", { textContent: weights || each === "…" ? each : from + each })))),
        element("tbody", {}, ...rows.map((row, i) => element("tr", {}, element("th", { textContent: all[matrices[matrix]][i] }), ...cells(row).map(each => element("td", { textContent: each }))))));
      if (kind === "generator") table.append(element("tbody", {}, element("tr", {}, element("td"), element("th", { colSpan: 9, textContent: WORDS.likely })),
        ...report.trace.likely.map((words, i) => element("tr", {}, element("th", { textContent: all[1][i] }), element("td", { colSpan: 9, textContent: words.map(({ word, ended, p }) => `${ended ? WORDS.end : shown(word)} ${p.toFixed(2)}`).join("   ") })))));
      code.textContent = LIVE.stored.code[opened.code];
    }
    const load = async chosen => {
      opened = chosen ?? opened;
      const line = kept["live translate"]?.trim() || LIVE.stored.examples[0].line;
      if (report?.line === line) return show();
      status.textContent = WORDS.loading;
      const answer = await ask(figure, line, { trace: true }).catch(() => {});
      status.textContent = answer ? inWords(answer.doubt) : WORDS.failed;
      if (!answer?.trace) return;
      report = answer;
      status.textContent = "";
      said.textContent = WORDS.of(line);
      refocused(figure, () => {
        figure.replaceChildren(said, status, boxes, dials, tells, chain, element("div", { className: "table-wrapper", tabIndex: 0 }, table), code);
        renew();
      });
    };
    figure.replaceChildren(element("div", { className: "live-examples" }, element("button", { type: "button", textContent: WORDS.open, onclick: () => load() })), status);
    // A box of the drawing opens here.
    const drawing = figure.closest("section").querySelector(".drawing svg");
    for (const [name, places] of Object.entries(NAMED))
      [...drawing?.querySelectorAll("text") ?? []].filter(each => each.textContent === name).forEach((text, i) => {
        for (const part of [text.previousElementSibling, text]) {
          part.style.cursor = "pointer";
          part.addEventListener("click", event => {
            if (event.target.closest("#large")) return;
            event.stopPropagation();
            load(BOXES[places[i]]).then(() => figure.scrollIntoView({ block: "nearest" }));
          });
        }
      });
  }

  // A figure is made when one comes near it, with the examples that the page shows first.
  const stored = once(() => script("live/stored.js"));
  const FIGURES = { translate, beam: search, cut, next, inside };
  const near = new IntersectionObserver(entries => {
    for (const { isIntersecting, target: figure } of entries)
      if (isIntersecting) {
        near.unobserve(figure);
        // Widths of words are those of the font, once it is there.
        Promise.all([stored(), document.fonts.ready]).then(() => FIGURES[figure.dataset.figure](figure));
      }
  }, { rootMargin: "1500px" });
  document.querySelectorAll(".live").forEach(figure => near.observe(figure));
})();
