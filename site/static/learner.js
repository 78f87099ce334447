// A small Transformer that learns in the page: plain JavaScript, no library.
//
// A tensor is {data, grad}: two arrays of the same length. A model is a list of steps, each
// with a forward and a backward function. Forward runs the list from the first to the last,
// backward from the last to the first: that is backpropagation. The list and its arrays are
// made once, so nothing is allocated while the model learns.
//
// All of it is one function: a page that is opened from disk may start a worker only from
// text, and a function knows its own text.
function makeLearner() {
  "use strict";

  // --- Random numbers: the same ones for the same seed, in every browser ----------------
  function makeRandom(seed) {
    let state = Math.imul(seed + 1, 0x9E3779B1) >>> 0;
    const uniform = () => { // mulberry32
      state = (state + 0x6D2B79F5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
    return {
      uniform,
      below: n => Math.floor(uniform() * n),
      normal: () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform()),
    };
  }

  // --- C (n, m) += A (n, k) B (k, m): nearly all of the time is spent here --------------
  // Four rows and four columns at a time: eight numbers are read for sixteen products.
  function addProduct(A, B, C, n, k, m) {
    const rows = n - (n % 4), columns = m - (m % 4);
    for (let i = 0; i < rows; i += 4) {
      const a0 = i * k, a1 = a0 + k, a2 = a1 + k, a3 = a2 + k;
      for (let j = 0; j < columns; j += 4) {
        let c00 = 0, c01 = 0, c02 = 0, c03 = 0, c10 = 0, c11 = 0, c12 = 0, c13 = 0;
        let c20 = 0, c21 = 0, c22 = 0, c23 = 0, c30 = 0, c31 = 0, c32 = 0, c33 = 0;
        for (let p = 0, b = j; p < k; p++, b += m) {
          const b0 = B[b], b1 = B[b + 1], b2 = B[b + 2], b3 = B[b + 3];
          const x0 = A[a0 + p], x1 = A[a1 + p], x2 = A[a2 + p], x3 = A[a3 + p];
          c00 += x0 * b0; c01 += x0 * b1; c02 += x0 * b2; c03 += x0 * b3;
          c10 += x1 * b0; c11 += x1 * b1; c12 += x1 * b2; c13 += x1 * b3;
          c20 += x2 * b0; c21 += x2 * b1; c22 += x2 * b2; c23 += x2 * b3;
          c30 += x3 * b0; c31 += x3 * b1; c32 += x3 * b2; c33 += x3 * b3;
        }
        let c = i * m + j;
        C[c] += c00; C[c + 1] += c01; C[c + 2] += c02; C[c + 3] += c03; c += m;
        C[c] += c10; C[c + 1] += c11; C[c + 2] += c12; C[c + 3] += c13; c += m;
        C[c] += c20; C[c + 1] += c21; C[c + 2] += c22; C[c + 3] += c23; c += m;
        C[c] += c30; C[c + 1] += c31; C[c + 2] += c32; C[c + 3] += c33;
      }
    }
    const one = (i, j) => { // at the edges
      let sum = 0;
      for (let p = 0; p < k; p++) sum += A[i * k + p] * B[p * m + j];
      C[i * m + j] += sum;
    };
    for (let i = 0; i < rows; i++) for (let j = columns; j < m; j++) one(i, j);
    for (let i = rows; i < n; i++) for (let j = 0; j < m; j++) one(i, j);
  }

  function transpose(A, n, m, into) {
    for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) into[j * n + i] = A[i * m + j];
  }

  // --- The steps of a computation, and the gradient of each -----------------------------
  function makeTape() {
    const steps = [], made = [];
    const tensor = size => {
      made.push({ data: new Float64Array(size), grad: new Float64Array(size) });
      return made.at(-1);
    };
    const step = (forward, backward) => { steps.push({ forward, backward }); };

    // A row of a table for each number of `ids`: (rows, d).
    function embedding(ids, table, d) {
      const y = tensor(ids.length * d);
      step(
        () => ids.forEach((id, r) => { for (let i = 0; i < d; i++) y.data[r * d + i] = table.data[id * d + i]; }),
        () => ids.forEach((id, r) => { for (let i = 0; i < d; i++) table.grad[id * d + i] += y.grad[r * d + i]; }),
      );
      return y;
    }

    function add(a, b) {
      const y = tensor(a.data.length);
      step(
        () => { for (let i = 0; i < y.data.length; i++) y.data[i] = a.data[i] + b.data[i]; },
        () => { for (let i = 0; i < y.grad.length; i++) { a.grad[i] += y.grad[i]; b.grad[i] += y.grad[i]; } },
      );
      return y;
    }

    // x (rows, n) times a matrix (n, m), plus a bias (m).
    function linear(x, { matrix, bias }, n, m) {
      const rows = x.data.length / n, y = tensor(rows * m);
      const turned = new Float64Array(Math.max(rows * n, n * m));
      step(
        () => {
          for (let r = 0; r < rows; r++) y.data.set(bias.data, r * m);
          addProduct(x.data, matrix.data, y.data, rows, n, m);
        },
        () => {
          transpose(matrix.data, n, m, turned);
          addProduct(y.grad, turned, x.grad, rows, m, n);
          transpose(x.data, rows, n, turned);
          addProduct(turned, y.grad, matrix.grad, n, rows, m);
          for (let r = 0, at = 0; r < rows; r++) for (let i = 0; i < m; i++) bias.grad[i] += y.grad[at++];
        },
      );
      return y;
    }

    function relu(x) {
      const y = tensor(x.data.length);
      step(
        () => { for (let i = 0; i < y.data.length; i++) y.data[i] = Math.max(0, x.data[i]); },
        () => { for (let i = 0; i < y.grad.length; i++) if (x.data[i] > 0) x.grad[i] += y.grad[i]; },
      );
      return y;
    }

    // Each vector of d numbers to mean 0 and variance 1, then a learned scale and shift.
    function norm(x, { scale, shift }, d) {
      const rows = x.data.length / d, y = tensor(x.data.length);
      const unit = new Float64Array(x.data.length), factor = new Float64Array(rows);
      step(
        () => {
          for (let r = 0; r < rows; r++) {
            const from = r * d;
            let mean = 0, variance = 0;
            for (let i = from; i < from + d; i++) mean += x.data[i] / d;
            for (let i = from; i < from + d; i++) variance += (x.data[i] - mean) ** 2 / d;
            factor[r] = 1 / Math.sqrt(variance + 1e-6);
            for (let i = 0; i < d; i++) {
              unit[from + i] = (x.data[from + i] - mean) * factor[r];
              y.data[from + i] = scale.data[i] * unit[from + i] + shift.data[i];
            }
          }
        },
        () => {
          for (let r = 0; r < rows; r++) {
            const from = r * d;
            let mean = 0, along = 0;
            for (let i = 0; i < d; i++) {
              const g = y.grad[from + i];
              scale.grad[i] += g * unit[from + i];
              shift.grad[i] += g;
              mean += g * scale.data[i] / d;
              along += g * scale.data[i] * unit[from + i] / d;
            }
            for (let i = 0; i < d; i++)
              x.grad[from + i] += (y.grad[from + i] * scale.data[i] - mean - unit[from + i] * along) * factor[r];
          }
        },
      );
      return y;
    }

    // The vectors at some positions of each sentence: (batch * length, d) to (batch * asks, d).
    function at(x, asks, length, d) {
      const batch = x.data.length / length / d, y = tensor(batch * asks.length * d);
      const each = work => {
        for (let b = 0, to = 0; b < batch; b++) for (const a of asks) for (let i = 0; i < d; i++) work(to++, (b * length + a) * d + i);
      };
      step(
        () => each((to, from) => { y.data[to] = x.data[from]; }),
        () => each((to, from) => { x.grad[from] += y.grad[to]; }),
      );
      return y;
    }

    // Attention of all heads at once. The words at the positions `asks` look at those that
    // `seen(asking, other)` allows. Without query and key it is an average. The weights
    // (batch, heads, asks, length) stay in `weights`.
    function attention(query, key, value, { heads, divisor, asks, length, seen, d }) {
      const batch = value.data.length / length / d, dk = d / heads, y = tensor(batch * asks.length * d);
      const weights = new Float64Array(batch * heads * asks.length * length), slope = new Float64Array(length);
      const others = asks.map(a => [...Array(length).keys()].filter(j => seen(a, j)));
      const each = work => {
        let w = 0;
        for (let b = 0; b < batch; b++) for (let h = 0; h < heads; h++) for (let a = 0; a < asks.length; a++, w += length)
          work((b * asks.length + a) * d + h * dk, b * length * d + h * dk, w, others[a]);
      };
      step(
        () => {
          y.data.fill(0);
          each((mine, first, w, open) => {
            let top = -Infinity, sum = 0;
            for (const j of open) {
              let score = 0;
              if (query) for (let i = 0, k = first + j * d; i < dk; i++) score += query.data[mine + i] * key.data[k + i];
              weights[w + j] = score / divisor;
              top = Math.max(top, weights[w + j]);
            }
            for (const j of open) sum += weights[w + j] = Math.exp(weights[w + j] - top);
            for (const j of open) {
              const weight = weights[w + j] /= sum;
              for (let i = 0, v = first + j * d; i < dk; i++) y.data[mine + i] += weight * value.data[v + i];
            }
          });
        },
        () => each((mine, first, w, open) => {
          let mean = 0;
          for (const j of open) {
            const weight = weights[w + j], v = first + j * d;
            let g = 0;
            for (let i = 0; i < dk; i++) {
              g += y.grad[mine + i] * value.data[v + i];
              value.grad[v + i] += weight * y.grad[mine + i];
            }
            slope[j] = g;
            mean += weight * g;
          }
          if (query) for (const j of open) {
            const g = weights[w + j] * (slope[j] - mean) / divisor, k = first + j * d;
            for (let i = 0; i < dk; i++) {
              query.grad[mine + i] += g * key.data[k + i];
              key.grad[k + i] += g * query.data[mine + i];
            }
          }
        }),
      );
      return { y, weights };
    }

    // The mean of -log p over all answers. `scores` holds m scores for each answer.
    function crossEntropy(scores, answers, m) {
      const p = new Float64Array(scores.data.length), loss = { value: 0, p };
      step(
        () => {
          loss.value = 0;
          answers.forEach((answer, r) => {
            const row = scores.data.subarray(r * m, (r + 1) * m), top = row.reduce((a, b) => Math.max(a, b));
            let sum = 0;
            for (let i = 0; i < m; i++) sum += p[r * m + i] = Math.exp(row[i] - top);
            for (let i = 0; i < m; i++) p[r * m + i] /= sum;
            loss.value += (top + Math.log(sum) - row[answer]) / answers.length;
          });
        },
        () => answers.forEach((answer, r) => {
          for (let i = 0; i < m; i++) scores.grad[r * m + i] += (p[r * m + i] - (i === answer)) / answers.length;
        }),
      );
      return loss;
    }

    return {
      embedding, add, linear, relu, norm, at, attention, crossEntropy,
      forward() { for (const { forward } of steps) forward(); },
      backward() {
        for (const { grad } of made) grad.fill(0);
        for (let i = steps.length - 1; i >= 0; i--) steps[i].backward();
      },
    };
  }

  // --- The model, with or without each of its parts -------------------------------------
  // Two exams. "read": one word, `task.asking`, answers questions about the sentence, from
  // its vector. "write": the answer is written word by word behind the sentence; a word of
  // the sentence sees the whole sentence, a word of the answer also what stands before it.
  const DEFAULTS = {
    exam: "read", attention: true, positions: true, layers: 2, heads: 4, residual: true, norm: true,
    network: true, divide: true, mask: true, width: 32, rate: 0.005, seed: 0,
  };
  // What is different when a part is taken away.
  const PARTS_AWAY = {
    whole: {}, positions: { positions: false }, attention: { attention: false },
    residuals: { residual: false }, mask: { mask: false },
  };

  const sizes = task => ({
    words: task.words.length, read: task.frame.length, write: task.exam === "write" ? task.answers : 0,
    scores: task.exam === "write" ? task.words.length : task.choices.length,
  });

  // All that is learned, by name. Drawn as PyTorch draws it: tables from N(0, 1), matrices and
  // biases of a linear map from n numbers uniformly within 1 / sqrt(n).
  function makeWeights(settings, task) {
    const random = makeRandom(settings.seed), { words, read, write, scores } = sizes(task), d = settings.width, weights = {};
    const tensor = (name, size, draw) => {
      const [data, grad, m, v] = [0, 0, 0, 0].map(() => new Float64Array(size));
      weights[name] = { data: data.map(draw), grad, m, v };
      return weights[name];
    };
    const linear = (name, n, m) => {
      const draw = () => (2 * random.uniform() - 1) / Math.sqrt(n);
      return { matrix: tensor(`${name}.matrix`, n * m, draw), bias: tensor(`${name}.bias`, m, draw) };
    };
    const norm = name => ({ scale: tensor(`${name}.scale`, d, () => 1), shift: tensor(`${name}.shift`, d, () => 0) });
    const parts = { table: tensor("words", words * d, random.normal), layers: [] };
    if (settings.positions) parts.places = tensor("places", (read + write) * d, random.normal);
    for (let n = 0; n < settings.layers; n++) {
      const layer = {};
      for (const name of settings.attention ? ["query", "key", "value", "out"] : []) layer[name] = linear(`${n}.${name}`, d, d);
      if (settings.network) Object.assign(layer, { wide: linear(`${n}.wide`, d, 4 * d), narrow: linear(`${n}.narrow`, 4 * d, d) });
      if (settings.norm) Object.assign(layer, { norm: norm(`${n}.norm`), second: settings.network && norm(`${n}.second`) });
      parts.layers.push(layer);
    }
    if (settings.norm) parts.norm = norm("norm");
    const answers = task.exam === "write" ? 1 : task.answers;
    parts.scores = linear("scores", d, answers * scores);
    return { weights, parts };
  }

  // The steps for a batch of sentences, with `written` words of the answer before them.
  function makeModel(settings, task, parts, batch, written) {
    const tape = makeTape(), { read, scores, write } = sizes(task), length = read + (write && written), d = settings.width;
    const ids = new Int32Array(batch * length), looks = [], everywhere = [...Array(length).keys()];
    const asked = write ? everywhere.slice(read) : [task.asking];
    const answers = new Int32Array(batch * (write ? asked.length : task.answers));
    const seen = (i, j) => j < read || !settings.mask || (i >= read && j <= i);
    let x = tape.embedding(ids, parts.table, d), here = everywhere; // `x` holds the vectors at the positions `here`
    if (settings.positions) x = tape.add(x, tape.embedding(ids.map((_, r) => r % length), parts.places, d));
    parts.layers.forEach((layer, n) => {
      const asks = n === parts.layers.length - 1 ? asked : everywhere; // of the last layer, nothing else is used
      const sublayer = (x, asks, norm, work) => {
        const y = work(settings.norm ? tape.norm(x, norm, d) : x), kept = asks === here ? x : tape.at(x, asks, length, d);
        here = asks;
        return settings.residual ? tape.add(kept, y) : y;
      };
      x = sublayer(x, asks, layer.norm, x => {
        const [query, key, value] = ["query", "key", "value"].map(name =>
          settings.attention ? tape.linear(name === "query" && asks !== everywhere ? tape.at(x, asks, length, d) : x, layer[name], d, d) : null);
        const { y, weights } = tape.attention(query, key, value ?? x,
          { heads: settings.heads, divisor: settings.divide ? Math.sqrt(d / settings.heads) : 1, asks, length, seen, d });
        looks.push({ weights, asks });
        return settings.attention ? tape.linear(y, layer.out, d, d) : y;
      });
      if (settings.network) x = sublayer(x, asks, layer.second, x =>
        tape.linear(tape.relu(tape.linear(x, layer.wide, d, 4 * d)), layer.narrow, 4 * d, d));
    });
    if (settings.norm) x = tape.norm(x, parts.norm, d);
    const said = tape.linear(x, parts.scores, d, (write ? 1 : task.answers) * scores);
    return { ids, answers, length, looks, loss: tape.crossEntropy(said, answers, scores), forward: tape.forward, backward: tape.backward };
  }

  // Adam, as in PyTorch.
  function update(weights, rate, step) {
    for (const { data, grad, m, v } of Object.values(weights)) for (let i = 0; i < data.length; i++) {
      m[i] = 0.9 * m[i] + 0.1 * grad[i];
      v[i] = 0.999 * v[i] + 0.001 * grad[i] ** 2;
      data[i] -= rate * m[i] / (1 - 0.9 ** step) / (Math.sqrt(v[i] / (1 - 0.999 ** step)) + 1e-8);
      grad[i] = 0;
    }
  }

  // --- A run: learn, be tested, answer ---------------------------------------------------
  // Sentences that the model learns from, and those it is tested on. `task.group` says which
  // set of nouns a row is about; sets are held out whole, the first one always.
  function split(task, seed) {
    const random = makeRandom(seed + 1000), groups = Math.max(...task.rows.map(row => row.group)) + 1;
    const held = new Set([0]);
    while (held.size < task.held) held.add(random.below(groups));
    return { learned: task.rows.filter(row => !held.has(row.group)), held: task.rows.filter(row => held.has(row.group)) };
  }

  function makeRun(settings, task) {
    settings = { ...DEFAULTS, batch: task.exam === "write" ? 16 : 32, ...settings };
    const { weights, parts } = makeWeights(settings, task), { write, scores, read } = sizes(task), { learned, held } = split(task, settings.seed);
    const random = makeRandom(settings.seed + 2000), { batch } = settings;
    const model = makeModel(settings, task, parts, batch, task.answers), models = new Map();
    const modelFor = (count, written) => { // for questions: the same weights, another number of sentences
      const name = `${count} ${written}`;
      if (!models.has(name)) models.set(name, makeModel(settings, task, parts, count, written));
      return models.get(name);
    };
    const set = (model, b, { ids, answers }, written) => {
      model.ids.set(ids, b * model.length);
      if (write) model.ids.set([task.start, ...answers].slice(0, written), b * model.length + read);
      model.answers.set(write ? answers.slice(0, written) : answers, b * (write ? written : answers.length));
    };
    const best = (p, from) => {
      let top = 0;
      for (let i = 1; i < scores; i++) if (p[from + i] > p[from + top]) top = i;
      return top;
    };
    // What the model answers for each sentence. In "write", what it hasn't written isn't there.
    function answer(rows) {
      const said = rows.map(() => []);
      let used;
      for (let t = 1; t <= (write || 1); t++) {
        used = modelFor(rows.length, t);
        rows.forEach(({ ids }, b) => set(used, b, { ids, answers: write ? [...said[b], 0] : new Array(task.answers).fill(0) }, t));
        used.forward();
        rows.forEach((_, b) => {
          if (write) said[b].push(best(used.loss.p, (b * t + t - 1) * scores));
          else for (let q = 0; q < task.answers; q++) said[b].push(best(used.loss.p, (b * task.answers + q) * scores));
        });
      }
      return { said, looks: used.looks, length: used.length };
    }
    const run = {
      settings, weights, model, answer, held, step: 0,
      draw() { for (let b = 0; b < batch; b++) set(model, b, learned[random.below(learned.length)], task.answers); },
      learn() {
        run.draw();
        model.forward();
        model.backward();
        run.step++;
        update(weights, settings.rate, run.step);
        return model.loss.value;
      },
      // The share of held-out sentences of which everything is right
      test: () => run.exam().right,
      // and each single answer, and what it says to some, from one end of the list to the other.
      exam(some = 0) {
        const { said } = answer(held), share = test => held.filter(test).length / held.length;
        const right = share(({ answers }, b) => answers.every((a, q) => a === said[b][q]));
        const each = held[0].answers.map((_, q) => share(({ answers }, b) => answers[q] === said[b][q]));
        const few = Array.from({ length: some }, (_, i) => Math.floor((i + 0.5) * held.length / some));
        return { right, each, few: few.map(b => ({ ...held[b], said: said[b] })) };
      },
      count: () => Object.values(weights).reduce((sum, { data }) => sum + data.length, 0),
    };
    return run;
  }

  // The rows of a task that the site's build packed into bytes: of each, the words that
  // differ between sentences, the answers, and the group.
  function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed.bytes), c => c.charCodeAt(0)), rows = [];
    const open = packed.frame.flatMap((id, i) => id < 0 ? [i] : []), size = open.length + packed.answers + 1;
    for (let at = 0; at < bytes.length; at += size) {
      const ids = packed.frame.slice();
      open.forEach((place, i) => { ids[place] = bytes[at + i]; });
      rows.push({ ids, answers: [...bytes.subarray(at + open.length, at + size - 1)], group: bytes[at + size - 1] });
    }
    return { ...packed, rows };
  }

  // --- In a worker: learn for a moment, report, listen, go on ---------------------------
  const FEW = 3; // of the sentences in the test, whose answers are shown
  function serve() {
    let run, task, until = 0, clock = 0, tested, number, sentence;
    const report = losses => {
      const { said, looks, length } = run.answer([{ ids: sentence }]);
      postMessage({
        number, losses, tested, said: said[0], length, step: run.step, seconds: clock / 1000, done: run.step >= until, count: run.count(),
        looks: looks.map(({ weights, asks }) => ({ weights: Float32Array.from(weights), asks })),
      });
    };
    const go = () => {
      const mine = run, losses = [], start = performance.now();
      while (run.step < until && performance.now() - start < 60) losses.push(run.learn());
      clock += performance.now() - start;
      if (run.step >= until || run.step - tested.step >= 20) tested = { step: run.step, ...run.exam(FEW) };
      report(losses);
      if (run.step < until) setTimeout(() => mine === run && go());
    };
    onmessage = ({ data }) => {
      if (data.sentence) sentence = data.sentence;
      if (data.task) task = unpack(data.task);
      if (data.settings) {
        run = makeRun(data.settings, task);
        number = data.number;
        until = clock = 0;
        tested = { step: 0, ...run.exam(FEW) };
      }
      if (!run) return;
      const resting = run.step >= until;
      if (data.until !== undefined) until = data.until;
      if (run.step >= until) report([]);
      else if (resting) go();
    };
  }

  return { DEFAULTS, PARTS_AWAY, makeRun, split, unpack, serve };
}
if (typeof module !== "undefined") module.exports = makeLearner;
