// Search: sections whose titles and texts have the words of the question, best first.
const simple = text => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replaceAll("√", " sqrt ");
const COMMON = new Set("a an and are as at be by can do does for from how i in is it of on or that the this to what when where which why with you".split(" "));

// Chinese has no spaces: a run of its characters is looked for as it is.
const terms = question => [...new Set(simple(question).match(/[a-z0-9_]+|[^\s\p{P}\p{S}a-z0-9_]+/gu) ?? [])];
const pattern = term => {
  const escaped = term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const stem = escaped.replace(/ies$/, "y").replace(/(?<=.{3})((?<=[sxz]|[cs]h)es|s|ing|ed|e)$/, "").replace(/(?<=.{3})(y|i)$/, "[yi]");
  return new RegExp(/^[a-z0-9_]+$/.test(term) ? `(?<![a-z0-9])${stem}` : escaped, "g");
};
const count = (text, term) => (text.match(pattern(term)) ?? []).length;

const ALL = simple(SECTIONS.map(([, title, , text]) => `${title} ${text}`).join(" "));

// A run of Chinese characters that no section has is split into the longest that they have.
function parts(term) {
  if (/^[a-z0-9_]+$/.test(term) || ALL.includes(term)) return [term];
  const all = [];
  for (let at = 0; at < term.length;) {
    let end = term.length;
    while (end > at + 1 && !ALL.includes(term.slice(at, end))) end--;
    all.push(term.slice(at, end));
    at = end;
  }
  return all;
}

// A word that no section has is read as one that differs in a letter, the most frequent.
function meant(term) {
  if (term.startsWith("hallucinat")) return "doubt"; // what these pages call it
  if (term.length < 4 || !/^[a-z]+$/.test(term) || pattern(term).test(ALL)) return term;
  const spots = [...term].map((_, i) => [term.slice(0, i), term.slice(i)]);
  const near = spots.flatMap(([a, b]) => [`${a}[a-z]?${b.slice(1)}`, `${a}[a-z]${b}`, `${a}${b.replace(/^(.)(.)/, "$2$1")}`]);
  const times = {};
  for (const [word] of ALL.matchAll(new RegExp(`(?<![a-z])(?:${near.join("|")}|${term}[a-z])(?![a-z])`, "g")))
    times[word] = (times[word] ?? 0) + 1;
  return Object.keys(times).sort((a, b) => times[b] - times[a])[0] ?? term;
}

function found(asked) {
  const pages = SECTIONS.map(([url, title, page, text]) => ({
    url, title, page, text, in_title: simple(title), in_page: simple(page), in_text: simple(text),
  }));
  const weight = asked.map(term => {
    const having = pages.filter(each => count(each.in_title + " " + each.in_text, term)).length;
    const rare = Math.log(1 + pages.length / (1 + having));
    return COMMON.has(term) ? 0.1 * rare : rare;
  });
  const total = weight.reduce((a, b) => a + b, 0);
  const home = {}; // how well the glossary's term for a section answers
  for (const [name, meaning, url] of HOMES) {
    const [named, said] = [name, meaning].map(text => asked.every(one => count(simple(text), one)));
    const own = terms(name.replace(/（.*/, ""));
    const share = own.filter(term => asked.some(one => count(term, one))).length / own.length;
    home[url] = Math.max(home[url] ?? 0, named ? 3 + 9 * share : said ? 2 : 0);
  }
  for (const each of pages) {
    let score = 0, covered = 0;
    // A title that says nothing else is worth more.
    const own = terms(each.title).filter(term => !/^[\d_.]+$/.test(term));
    const told = own.filter(term => asked.some(one => count(term, one))).length;
    each.told = 0.5 + 0.5 * told / Math.max(own.length, 1);
    asked.forEach((term, i) => {
      const titles = count(each.in_title, term), texts = count(each.in_text, term);
      if (titles + texts) covered += weight[i];
      score += weight[i] * (6 * Math.min(titles, 1) * each.told + Math.min(count(each.in_page, term), 1)
        + texts / (texts + 2 + each.in_text.length / 1500));
    });
    score += total * (home[each.url] ?? 0);
    const kind = /\/0\d_/.test(each.url) ? 1 : /\/9\d_/.test(each.url) ? 0.7 : 0.8;
    each.score = score * kind * (home[each.url] ? 1 : (covered / total) ** 2);
  }
  return pages.filter(each => each.score > 0).sort((a, b) => b.score - a.score).slice(0, 30);
}

// The part of a text with the first of the words, and marks on all of them.
function excerpt(text, asked) {
  const low = text.toLowerCase();
  const rare = asked.filter(term => !COMMON.has(term));
  const places = rare.map(term => low.search(pattern(term))).filter(at => at >= 0);
  const from = places.length ? Math.max(0, Math.min(...places) - 60) : 0;
  const blank = from && text.indexOf(" ", from) + 1;
  const start = blank < from + 60 ? blank : from; // Chinese can go on without a blank
  const shown = document.createElement("p");
  const words = text.slice(start, start + 220).replace(start + 220 < text.length ? /\s+\S{0,24}$/ : "", "");
  const part = (start ? "… " : "") + words + (start + words.length < text.length ? " …" : "");
  const all = rare.map(term => pattern(term).source).join("|");
  for (const piece of all ? part.split(new RegExp(`((?:${all})[a-z]*)`, "i")) : [part]) {
    const hit = all && new RegExp(`^(?:${all})`, "i").test(piece);
    shown.append(hit ? Object.assign(document.createElement("mark"), { textContent: piece }) : piece);
  }
  return shown;
}

const place = document.getElementById("search-results");
const question = new URLSearchParams(location.search).get("q") ?? "";
for (const input of document.querySelectorAll("input[name=q]")) input.value = question;
if (question.trim()) {
  const written = terms(question), asked = written.flatMap(parts).map(meant), results = found(asked);
  if (String(asked) !== String(written))
    place.append(Object.assign(document.createElement("p"), { textContent: `→ ${asked.join(" ")}` }));
  const list = document.createElement("ul");
  list.className = "search";
  for (const { url, title, page, text } of results) {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = url;
    link.textContent = title;
    item.append(link);
    if (page !== title) item.append(Object.assign(document.createElement("small"), { textContent: page }));
    item.append(excerpt(text, asked));
    list.append(item);
  }
  place.append(results.length ? list : place.dataset.nothing);
}
