// The figure in which a model learns. learner.js computes in a worker; this file asks and draws.
// The figure is a <div class="learn"> that site/build.py has placed. Its state is the address.
(() => {
  const { DEFAULTS: BASE, PARTS_AWAY: without, unpack } = makeLearner(), RUNS = RIDDLES.runs;
  const UPDATES = 300;
  const STEPS = { layers: [1, 2, 3, 4], width: [8, 16, 32], heads: [1, 2, 4], rate: [0.0005, 0.005, 0.05], seed: [0, 1, 2, 3, 4, 5, 6, 7] };

  const CHOSEN = ["dog", "cat", "goat", "slow"]; // who stands in the sentence at first

  // The parts that one can take away, in each exam, and what is measured without it. A sentence
  // stands here only if eight seeds agree; tests/site/test_learner.py holds them to it.
  const EXAMS = {
    read: {
      title: "Who chased, and who was “it”?",
      off: {
        positions: ["positions", "A bag of words. “dog chased cat” and “cat chased dog” are the same to it, so it guesses.", "where each word stands"],
        attention: ["attention", "Instead of choosing where to look, every word gets the plain average of the sentence. Who chased, it gets right: the place alone tells it. Who “it” was, it mostly guesses.", "which words to look at"],
        residuals: ["residual connections", "Each part now replaces what it was given, instead of adding to it. With most seeds, it names the animal that chased both times.", "add, don't replace"],
      },
    },
    write: {
      title: "Write it in German",
      off: {
        mask: ["the mask", "While it learns, each word sees the one that it has to write next. It copies, and the loss falls to nearly nothing. When it has to write, there is nothing to copy: it guesses the pronoun.", "don't look ahead"],
        positions: ["positions", "A bag of words, once more: it guesses the pronoun.", "where each word stands"],
      },
    },
  };

  const GUESSES = [["one in ten", 0.1], ["a third", 0.33], ["two thirds", 0.67], ["all", 1]];

  const percent = share => `${Math.round(100 * share)} %`;

  // --- the code of this model, in the chapters' classes ---
  function code({ exam, attention, positions, residual, mask, layers, heads, width: d }) {
    const writes = exam === "write";
    return [
      writes && (mask ? "mask = subsequent_mask(length)  # a word sees what stands before it"
        : "mask = torch.ones(1, length, length)  # a word sees what it has to write"),
      writes && "mask[:, :, :13] = 1  # and the whole English sentence",
      attention ? `attend = MultiHeadedAttention(h=${heads}, d_model=${d}, dropout=0.0)`
        : "attend = Average()  # of all that a word may see; section 1.0",
      `network = PositionwiseFeedForward(${d}, ${4 * d}, dropout=0.0)`,
      `layer = EncoderLayer(${d}, attend, network, dropout=0.0)`,
      !residual && `layer.sublayer = clones(Replacing(${d}, dropout=0.0), 2)  # section 1.9`,
      `encoder = Encoder(layer, N=${layers})`,
      "",
      `x = embed(ids)  # (sentences, words, ${d})`,
      positions && "x = x + places.weight  # where each word stands",
      `x = encoder(x, ${writes ? "mask" : "None"})`,
      writes ? "scores = out(x[:, 13:])  # for the next word, at each place" : "scores = out(x[:, 9])  # “it” is word 9",
    ].filter(line => line !== false).join("\n");
  }

  // --- the address: what differs from the whole model, and nothing that can't be ---
  const given = () => new URLSearchParams(location.hash.startsWith("#learn?") ? location.hash.slice(7) : "");
  function readAddress() {
    const settings = { ...BASE }, said = given();
    if (said.get("exam") in EXAMS) settings.exam = said.get("exam");
    for (const part of (said.get("without") ?? "").split(" ")) if (part in EXAMS[settings.exam].off) Object.assign(settings, without[part]);
    for (const [key, allowed] of Object.entries(STEPS)) if (said.has(key) && allowed.includes(+said.get(key))) settings[key] = +said.get(key);
    return settings;
  }
  const isOff = (settings, part) => Object.entries(without[part]).every(([key, value]) => settings[key] === value);
  const missing = settings => Object.keys(EXAMS[settings.exam].off).filter(part => isOff(settings, part));
  function address(settings, chosen, guess) {
    const said = new URLSearchParams();
    if (settings.exam !== "read") said.set("exam", settings.exam);
    if (missing(settings).length) said.set("without", missing(settings).join(" "));
    for (const key of Object.keys(STEPS)) if (settings[key] !== BASE[key]) said.set(key, settings[key]);
    if (String(chosen) !== String(CHOSEN)) said.set("words", chosen.join(" "));
    if (guess !== null) said.set("guess", guess);
    return `#learn?${said}`;
  }
  // The words of the sentence, if they are ones that can be chosen, and the guess
  function readWords() {
    const words = given().get("words")?.split(" ") ?? [], animals = RIDDLES.read.choices;
    const good = words.length === 4 && new Set(words).size === 4 && words.every((word, i) => (i < 3 ? animals : RIDDLES.roles.flat()).includes(word));
    return good ? words : CHOSEN;
  }
  const readGuess = () => GUESSES.find(([, share]) => String(share) === given().get("guess"))?.[1] ?? null;
  // Seeds were measured for the whole model and for each part taken away alone.
  const measured = settings => {
    const off = missing(settings), plain = { ...BASE, exam: settings.exam, seed: settings.seed, ...(off.length === 1 ? without[off[0]] : {}) };
    return off.length < 2 && Object.keys(plain).every(key => plain[key] === settings[key]) ? `${settings.exam} ${off[0] ?? "whole"}` : null;
  };

  // A run in words: what is away, and which dials are turned
  const named = settings => [
    missing(settings).length ? `without ${missing(settings).map(part => EXAMS[settings.exam].off[part][0]).join(", ")}` : "the whole model",
    ...Object.keys(STEPS).filter(key => settings[key] !== BASE[key] && !missing(settings).some(part => key in without[part])).map(key => `${key === "rate" ? "learning rate" : key} ${settings[key]}`),
  ].join(", ");

  // The fewest numbers with which all was right, on this device
  const fewest = (exam, count) => {
    try {
      const least = Math.min(count, localStorage[`fewest ${exam}`] ?? Infinity);
      if (least < Infinity) localStorage[`fewest ${exam}`] = least;
      return least;
    } catch { return count; } // the browser may keep nothing
  };

  function figure(place) {
    const tasks = { read: unpack(RIDDLES.read), write: unpack(RIDDLES.write) };
    let settings = readAddress(), worker, number = 0, guess = null, now = null, before = null;
    const task = () => tasks[settings.exam];
    const part = (tag, className) => element(tag, { className });
    const tabs = part("div", "learn-tabs"), ask = part("p", "learn-ask"), look = part("div", "learn-look"), says = part("p", "learn-says");
    const parts = part("div", "learn-parts"), guesses = part("div", "learn-guesses"), chart = part("div", "learn-chart");
    const state = part("p", "learn-state"), verdict = part("p", "learn-verdict"), bar = part("div", "learn-bar"), more = part("details", "learn-more");
    const listing = part("pre", "learn-code"), few = part("div", "learn-few");
    verdict.setAttribute("aria-live", "polite");
    place.replaceChildren(tabs, parts, guesses, verdict, few, chart, state, bar, ask, look, says, more);
    more.append(element("summary", { textContent: "The code of this model, and its dials" }), listing);
    const dials = part("div", "learn-dials");
    more.append(dials);

    // --- the sentence that one chooses ---
    const open = () => RIDDLES.read.frame.flatMap((id, at) => (id < 0 ? [at] : []));
    let chosen;
    const choose = words => { chosen = Object.fromEntries([1, 4, 7, 12].map((at, i) => [at, words[i]])); };
    choose(readWords());
    const animals = RIDDLES.read.choices;
    const sentence = () => RIDDLES.read.frame.map((id, at) => (id < 0 ? chosen[at] : RIDDLES.read.words[id]));
    const roles = RIDDLES.roles; // the adjectives of the hunter, the hunted, the third
    function truth() {
      const role = roles.findIndex(each => each.includes(chosen[12])), it = chosen[[1, 4, 7][role]];
      if (settings.exam === "read") return [chosen[1], it];
      const row = task().rows.find(({ ids }) => ids.every((id, at) => task().words[id] === sentence()[at]));
      return row?.answers.map(id => task().words[id]);
    }
    function drawAsk() {
      ask.replaceChildren(...sentence().flatMap((word, at) => {
        if (!open().includes(at)) return [`${word} `];
        const options = at === 12 ? roles.flat() : animals;
        const select = element("select", { ariaLabel: at === 12 ? "adjective" : "animal" },
          ...options.map(name => element("option", { textContent: name, selected: name === word })));
        select.onchange = () => {
          const twin = Object.keys(chosen).find(key => +key !== at && chosen[key] === select.value);
          if (twin) chosen[twin] = chosen[at]; // three different animals
          chosen[at] = select.value;
          refocused(place, drawAsk);
          remember();
          tell({ sentence: ids() });
        };
        return [select, " "];
      }));
    }
    const ids = () => sentence().map(word => task().words.indexOf(word));

    // --- the worker ---
    const remember = () => {
      const state = address(settings, Object.values(chosen), guess);
      if (state !== "#learn?" || location.hash.startsWith("#learn?")) history.replaceState(null, "", state);
    };
    const tell = message => worker?.postMessage(message);
    function start(train) {
      if (!worker) {
        const program = new Blob([`(${makeLearner})().serve();`], { type: "text/javascript" });
        worker = new Worker(URL.createObjectURL(program));
        worker.onmessage = ({ data }) => data.number === number && heard(data);
      }
      if (now?.curve.length > 1) before = now;
      now = { settings: { ...settings }, curve: [], guess, trained: train };
      tell({ number: ++number, task: RIDDLES[settings.exam], settings, sentence: ids(), until: train ? UPDATES : 0 });
      remember();
      draw();
    }
    function heard(data) {
      now.last = data;
      if (now.curve.at(-1)?.[0] !== data.tested.step) now.curve.push([data.tested.step, data.tested.right]);
      if (data.losses.length) now.loss = data.losses.at(-1);
      now.done = now.trained && data.done;
      refocused(place, () => { drawChart(); drawLook(); drawFew(); drawState(); });
    }

    // --- drawing ---
    const draw = () => refocused(place, drawAll);
    function drawAll() {
      tabs.replaceChildren(...Object.entries(EXAMS).map(([exam, { title }]) => element("button", {
        type: "button", textContent: title, ariaPressed: String(exam === settings.exam), onclick() {
          settings = { ...BASE, exam, seed: settings.seed };
          guess = before = null;
          start(false);
        },
      })));
      parts.replaceChildren(element("span", { textContent: "Its parts (click one to take it away):" }), ...Object.entries(EXAMS[settings.exam].off).map(([name, [label, , gloss]]) => element("button", {
        type: "button", ariaPressed: String(!isOff(settings, name)), onclick() {
          const off = isOff(settings, name);
          for (const [key, value] of Object.entries(without[name])) settings[key] = off ? BASE[key] : value;
          guess = null;
          start(false);
        },
      }, label, " ", element("small", { textContent: gloss }))));
      guesses.replaceChildren(element("span", { textContent: `Your guess: of sentences that it never saw, how many will it answer right after a few seconds of learning (${UPDATES} updates)?` }),
        ...GUESSES.map(([label, share]) => element("button", {
          type: "button", textContent: label, ariaPressed: String(guess === share), onclick() {
            guess = share;
            start(true);
          },
        })));
      listing.textContent = code(settings);
      dials.replaceChildren(...Object.entries(STEPS).map(([key, values]) => {
        const select = element("select", {}, ...values.map(value => element("option", { textContent: value, selected: settings[key] === value })));
        select.onchange = () => {
          settings[key] = +select.value;
          guess = null;
          start(false);
        };
        return element("label", {}, `${key === "rate" ? "learning rate" : key} `, select);
      }));
      drawAsk();
      drawChart();
      drawState();
    }

    function drawChart() {
      const W = Math.max(280, Math.min(chart.clientWidth || 640, 720)), H = place.closest("#large, .presenting .frame") ? 330 : 230, left = 42, right = 12, top = 12, low = 30;
      const x = step => left + (W - left - right) * step / UPDATES, y = share => top + (H - top - low) * (1 - share);
      const line = curve => `M${curve.map(([step, share]) => `${x(step).toFixed(1)},${y(share).toFixed(1)}`).join("L")}`;
      const svg = drawn("svg", { viewBox: `0 0 ${W} ${H}`, width: W, height: H, role: "img" });
      for (const share of [0, 0.5, 1]) svg.append(drawn("path", { class: "learn-grid", d: `M${left},${y(share)}H${W - right}` }),
        drawn("text", { x: left - 6, y: y(share) + 5, "text-anchor": "end" }, percent(share)));
      svg.append(drawn("text", { x: W - right, y: H - 6, "text-anchor": "end" }, `${UPDATES} updates`), drawn("text", { x: left, y: H - 6 }, "0"));
      const name = measured(settings), stored = name && RUNS[name], whole = RUNS[`${settings.exam} whole`];
      const kindOf = settings => (missing(settings).length ? "learn-less" : "learn-full");
      const band = (runs, kind) => {
        const steps = runs[0].map((_, n) => n * RUNS.every), at = pick => steps.map((step, n) => [step, pick(...runs.map(run => run[n]))]);
        svg.append(drawn("path", { class: `learn-band ${kind}`, d: `${line(at(Math.max))}L${line(at(Math.min).reverse()).slice(1)}Z` }));
      };
      const both = before?.curve.length > 1 && before.settings.exam === settings.exam;
      const bands = [];
      if (now?.done && stored !== whole) bands.push([whole, "learn-full", "range of eight runs, whole"]);
      if (now?.done && stored) bands.push([stored, kindOf(settings), "range of eight runs like this one"]);
      bands.forEach(([runs, kind]) => band(runs, kind));
      if (guess !== null) svg.append(drawn("path", { class: "learn-guess", d: `M${left},${y(guess)}H${W - right}` }),
        drawn("text", { class: "learn-guess", x: left + 6, y: y(guess) + (guess > 0.9 ? 17 : -6) }, "your guess"));
      if (now && !now.trained && !both) svg.append(drawn("text", { class: "learn-hint", x: (left + W - right) / 2, y: y(0.5) + 30, "text-anchor": "middle" }, "Guess, and it learns."));
      if (both) {
        const [step, share] = before.curve.at(-1);
        svg.append(drawn("path", { class: `learn-before ${kindOf(before.settings)}`, d: line(before.curve) }), drawn("circle", { class: `learn-before ${kindOf(before.settings)}`, cx: x(step), cy: y(share), r: 4 }));
      }
      if (now?.curve.length > 1) {
        const [step, share] = now.curve.at(-1);
        svg.append(drawn("path", { class: `learn-now ${kindOf(now.settings)}`, d: line(now.curve) }), drawn("circle", { class: `learn-now ${kindOf(now.settings)}`, cx: x(step), cy: y(share), r: 5 }),
          drawn("text", { class: `learn-now ${kindOf(now.settings)}`, x: x(step) - 8, y: y(share) + (share > 0.85 ? 24 : -12), "text-anchor": step > 40 ? "end" : "start" }, percent(share)));
      }
      svg.setAttribute("aria-label", now?.curve.length ? `Right, of sentences it never saw: ${percent(now.curve.at(-1)[1])} after ${now.curve.at(-1)[0]} updates.` : "Share of right answers, by updates.");
      const run = (when, { settings, curve }) => element("span", { className: `${when} ${kindOf(settings)}` }, `${named(settings)}${curve.length > 1 ? `: ${percent(curve.at(-1)[1])}${curve.at(-1)[0] < UPDATES ? ` after ${curve.at(-1)[0]} updates` : ""}` : ""}`);
      chart.replaceChildren(element("b", { textContent: settings.exam === "read" ? "Both answers right, of sentences that it never saw" : "All of it right, of sentences that it never saw" }), svg,
        element("p", { className: "learn-runs" }, ...now ? [run("learn-now", now)] : [], ...both ? [" ", run("learn-before", before)] : [],
          ...bands.flatMap(([, kind, says]) => [" ", element("span", { className: `learn-key ${kind}`, textContent: says })])));
    }

    function drawState() {
      const off = missing(settings), last = now?.last, share = now?.curve.at(-1)?.[1];
      state.textContent = !last ? "" : now.trained
        ? `${last.step} updates in ${last.seconds.toFixed(1)} s. Loss (its surprise at the right answers) ${now.loss?.toFixed(now.loss < 0.1 ? 4 : 2) ?? "–"}. It learns ${last.count.toLocaleString("en")} numbers.`
        : `Untrained: its ${last.count.toLocaleString("en")} numbers are random, and so is what it says.`;
      const name = measured(settings);
      const right = now?.done && share === 1, least = fewest(settings.exam, right ? last.count : Infinity);
      const guessed = GUESSES.find(([, share]) => share === now?.guess);
      const told = now?.done && guessed ? `You guessed ${guessed[0]}; it got ${percent(share)}. ` : "";
      verdict.replaceChildren(element("strong", { textContent: told }), (!now?.done ? "It is tested on animals that it has never met together."
        : last.step < UPDATES ? `Stopped after ${last.step} updates. Guess again, and it starts over.`
        : name && off.length ? EXAMS[settings.exam].off[off[0]][1]
        : name ? (share > 0.9 ? "Everything is right, or nearly. Now take a part away." : "Not this time, but eight runs of ours got there.") : "This model wasn't measured before: what you see is one run."));
      bar.replaceChildren(...[
        now?.trained && !now.done && ["Stop", () => { tell({ until: 0 }); }],
        now?.done && ["Again, with another seed", () => { settings.seed = (settings.seed + 1) % 8; start(true); }],
        (off.length > 0 || !measured(settings)) && ["The whole model", () => { settings = { ...BASE, exam: settings.exam, seed: settings.seed }; guess = null; start(false); }],
        now?.done && ["Copy a link to this", async event => { await navigator.clipboard.writeText(location.href); event.target.textContent = "Copied"; }],
      ].filter(Boolean).map(([textContent, onclick]) => element("button", { type: "button", textContent, onclick })),
      ...least < Infinity ? [element("span", { className: "learn-record", textContent: `Your record: all right with ${least.toLocaleString("en")} numbers. The dials below make it smaller.` })] : []);
    }

    const mark = (textContent, wrong) => element("strong", { className: wrong ? "learn-wrong" : "learn-right", textContent });

    // Some sentences of the test, and what it says
    function drawFew() {
      const { words, choices } = task(), reads = settings.exam === "read", names = reads ? choices : words;
      few.replaceChildren(element("b", { textContent: "Sentences of the test, and its answers" }), element("ul", {}, ...now.last.tested.few.map(({ ids, answers, said }) => {
        const marked = said.map((id, i) => mark(names[id], id !== answers[i]));
        return element("li", {}, `${ids.map(id => words[id]).join(" ")}: `, ...reads ? ["the ", marked[0], " chased, it was the ", marked[1]] : ["weil ", ...marked.flatMap(each => [each, " "])]);
      })));
    }

    // The sentence, what it answers, and where the asking word looks, in the last layer
    function drawLook() {
      const { looks, length, said } = now.last, words = sentence(), right = truth(), layers = looks.length, heads = settings.heads;
      const W = Math.max(280, Math.min(look.clientWidth || 640, 900)), narrow = W < 560;
      const { weights, asks } = looks[layers - 1], asking = settings.exam === "read" ? 9 : 13;
      const at = asks.indexOf(asking), mean = words.map((_, j) => {
        let sum = 0;
        for (let h = 0; h < heads; h++) sum += weights[(h * asks.length + at) * length + j] / heads;
        return sum;
      });
      const rows = narrow ? [words.slice(0, 8), words.slice(8)] : [words], svgH = 112 * rows.length;
      const svg = drawn("svg", { viewBox: `0 0 ${W} ${svgH}`, width: W, height: svgH, role: "img", "aria-label": `Weights of “${words[asking] ?? "weil"}”: ${words.map((word, j) => `${word} ${mean[j].toFixed(2)}`).join(", ")}` });
      let n = 0;
      rows.forEach((row, r) => {
        const widths = row.map(word => word.length * 8.2 + 6), gap = Math.max(0, (W - widths.reduce((a, b) => a + b)) / row.length);
        let x = 0;
        row.forEach((word, i) => {
          const j = n++, center = x + widths[i] / 2, base = 112 * r + 90, high = Math.sqrt(mean[j]) * 52;
          if (mean[j] > 0.005) svg.append(drawn("rect", { class: "learn-weight", x: center - 9, y: base - 18 - high, width: 18, height: high, rx: 3 }));
          if (mean[j] > 0.045) svg.append(drawn("text", { class: "learn-share", x: center, y: base - 22 - high, "text-anchor": "middle" }, mean[j].toFixed(2).replace(/^0/, "")));
          svg.append(drawn("text", { x: center, y: base, "text-anchor": "middle", class: j === asking ? "learn-asking" : "" }, word));
          x += widths[i] + gap;
        });
      });
      look.replaceChildren(element("b", { textContent: settings.exam === "read" ? "Where “it” looks, in the last layer" : "Where it looks before it writes the pronoun" }), svg);
      const names = settings.exam === "read" ? said.map(id => task().choices[id]) : said.map(id => task().words[id]);
      const marked = (name, i) => mark(name, right && name !== right[i]);
      says.replaceChildren(...(settings.exam === "read"
        ? ["It says: the ", marked(names[0], 0), " chased, and it was the ", marked(names[1], 1), "."]
        : ["It writes: weil ", ...names.flatMap((name, i) => [marked(name, i), " "])]),
      ...(right && names.some((name, i) => name !== right[i]) ? [` Right would be: ${right.join(settings.exam === "read" ? ", " : " ")}.`] : []));
    }

    addEventListener("hashchange", () => {
      if (!location.hash.startsWith("#learn?")) return;
      settings = readAddress();
      choose(readWords());
      guess = readGuess();
      start(guess !== null);
    });
    new ResizeObserver(() => { drawChart(); if (now?.last) drawLook(); }).observe(place);
    draw();
    // learn nothing before the figure is seen
    new IntersectionObserver((seen, watcher) => {
      if (!seen.some(each => each.isIntersecting)) return;
      watcher.disconnect();
      guess = readGuess();
      start(guess !== null);
    }).observe(place);
  }
  for (const place of document.querySelectorAll(".learn")) figure(place);
})();
