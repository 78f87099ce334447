// Elements of the page and of drawings, for this script and for those that it loads.
const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};
const drawn = (tag, attributes = {}, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

// Buttons and lists of a figure are drawn anew, and the one with the focus keeps it.
const refocused = (figure, draw) => {
  const all = () => [...figure.querySelectorAll("button, select")];
  const focused = document.activeElement, at = all().indexOf(focused);
  draw();
  if (!focused.isConnected) all()[at]?.focus({ preventScroll: true });
};

// Charts: a picture until the chart is scrolled to, then drawn in its place.
const dark = () => {
  const theme = document.body.dataset.theme;
  return theme === "dark" ||
    (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
};

let program;
function load() {
  program ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = document.documentElement.dataset.content_root + "_static/vega.js";
    Object.assign(script, { onload: done, onerror: failed });
    document.head.append(script);
  });
  return program;
}

// On a narrow page, views stand below each other, and charts become narrower.
const narrow = matchMedia("(max-width: 46em)");
function stack(spec, room) {
  for (const key of ["hconcat", "vconcat", "concat", "layer"])
    spec[key]?.forEach(part => stack(part, room));
  if (spec.spec) stack(spec.spec, room);
  if (spec.columns) spec.columns = Math.min(2, spec.columns);
  if (spec.encoding?.column) {
    spec.encoding.facet = { ...spec.encoding.column, columns: 1 };
    delete spec.encoding.column;
  }
  if (spec.facet?.column) Object.assign(spec, { facet: spec.facet.column, columns: 1 });
  const panel = spec.facet ? spec.spec : spec.encoding?.facet && spec;
  if (typeof panel?.width === "number") {
    if (spec.facet) spec.columns = 1;
    panel.width = Math.max(panel.width, room - 90);
  }
  if (spec.hconcat) {
    spec.vconcat = spec.hconcat;
    delete spec.hconcat;
  }
}
// Long titles get several lines.
function wrap(spec, letters) {
  for (const key of ["vconcat", "concat"]) spec[key]?.forEach(part => wrap(part, letters));
  const held = typeof spec.title === "string" ? spec : spec.title;
  const key = held === spec ? "title" : "text";
  if (typeof held?.[key] !== "string") return;
  const lines = [""];
  for (const word of held[key].split(" "))
    if ((lines.at(-1) + word).length < letters) lines[lines.length - 1] += word + " ";
    else lines.push(word + " ");
  held[key] = lines.map(line => line.trim()).filter(Boolean);
}
function shrink(spec, by, share) {
  for (const key of ["vconcat", "concat", "layer"])
    spec[key]?.forEach(part => shrink(part, by, share));
  if (spec.spec) shrink(spec.spec, by, share);
  if (typeof spec.width === "number") spec.width = Math.max(150, spec.width - by);
  for (const side of ["width", "height"])
    if (spec.width?.step && spec[side]?.step) spec[side].step *= share;
}

const controls = chart => [...chart.querySelectorAll("select, input")];
const state = input => /radio|checkbox/.test(input.type) ? input.checked : input.value;
const say = (input, ...events) =>
  events.forEach(name => input.dispatchEvent(new Event(name, { bubbles: true })));

async function draw(chart) {
  await load();
  const held = JSON.parse(chart.querySelector("script").textContent);
  let spec = held.spec;
  if (dark()) {
    let text = JSON.stringify({ ...spec, config: held.dark });
    for (const [old, fresh] of Object.entries(held.swap)) text = text.replaceAll(old, fresh);
    spec = JSON.parse(text);
  }
  const place = document.createElement("div");
  const chosen = controls(chart).map(state);
  const said = JSON.stringify(spec), dragged = said.includes("> pointermove");
  const clicked = said.includes('"cursor":"pointer"');
  spec.config.aria = false; // the label says it
  // Thousands of cells that change at once are painted, and only the words are SVG.
  const many = !dragged && /"stop":(\d+)/.exec(said)?.[1] > 2000;
  const renderer = many && !chart.closest("#large") ? "hybrid" : "svg";
  const embed = () => vegaEmbed(place, spec, { renderer, actions: false });
  const room = chart.clientWidth;
  const fits = narrow.matches && !spec.usermeta?.keepsWidth;
  if (fits) {
    stack(spec, room);
    if (dragged) spec.vconcat?.reverse(); // the finger is below what it moves
    wrap(spec, room / 7.8);
    spec.config.legend = { ...spec.config.legend, orient: "bottom", columns: 2 };
    spec.config.view.continuousWidth = room - 90;
  }
  let { view } = await embed();
  const wide = () => place.querySelector("svg").width.baseVal.value;
  if (fits && wide() > room) {
    view.finalize();
    shrink(spec, wide() - room, Math.max(0.5, (room - 70) / (wide() - 70)));
    ({ view } = await embed());
    // What is a little too wide is drawn smaller; what is much too wide scrolls.
    place.classList.toggle("smaller", !dragged && renderer === "svg" && wide() < 1.2 * room);
  }
  if (!clicked) place.querySelector("svg").setAttribute("aria-hidden", "true");
  controls(place).forEach((each, i) => {
    const name = each.closest(".vega-bind").querySelector(".vega-bind-name");
    if (each.type !== "radio") each.setAttribute("aria-label", name.textContent.trim());
    if (!(i in chosen) || state(each) === chosen[i]) return;
    if (/radio|checkbox/.test(each.type)) {
      if (chosen[i] || each.type === "checkbox") each.click();
      return;
    }
    each.value = chosen[i];
    say(each, "input", "change");
  });
  chart.view?.finalize();
  chart.querySelector(".drawn")?.remove();
  place.classList.add("drawn");
  // What a pointer drags, a finger does, too: the page doesn't scroll, and each mark that the
  // finger comes over hears of it.
  if (dragged) {
    const inside = ({ target }) => target.closest("[class*='_voronoi']");
    place.addEventListener("touchmove", event => inside(event) && event.preventDefault(), { passive: false });
    place.addEventListener("pointerdown", ({ target, pointerId }) =>
      target.hasPointerCapture(pointerId) && target.releasePointerCapture(pointerId));
  }
  // A tap shows what a pointer shows where it rests.
  place.addEventListener("click", ({ target, clientX, clientY }) => touch.matches &&
    target.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX, clientY })));
  if (clicked) reach(place, view);
  chart.append(place);
  tell(place, view);
  chart.view = view;
}

// Cells that one clicks: Tab leads to one, the arrow keys to its neighbors, Enter clicks.
const STEPS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
function reach(place, view) {
  for (const each of place.querySelectorAll("svg [role^=graphics]"))
    for (const said of ["role", "aria-roledescription"]) each.removeAttribute(said);
  const cells = [...place.querySelectorAll("path")].filter(each => each.__data__?.cursor === "pointer");
  cells.forEach((each, i) => { each.setAttribute("role", "button"); each.tabIndex = i ? -1 : 0; });
  const name = () => cells.forEach(each =>
    each.setAttribute("aria-label", Object.values(each.__data__.tooltip).join(", ")));
  name();
  for (const kind of ["change", "click"]) place.addEventListener(kind, () => view.runAsync().then(name));
  const spot = each => { const { x, y } = each.getBoundingClientRect(); return [x, y]; };
  place.addEventListener("keydown", event => {
    const { target, key } = event, step = STEPS[key];
    if (!cells.includes(target) || !(step || key === "Enter" || key === " ")) return;
    event.preventDefault();
    if (!step) return target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    const [x, y] = spot(target), ahead = each => {
      const [u, v] = spot(each).map((value, i) => value - [x, y][i]);
      return Math.abs(u * step[1] + v * step[0]) < 1 && u * step[0] + v * step[1];
    };
    const [next] = cells.filter(each => ahead(each) > 1).sort((a, b) => ahead(a) - ahead(b));
    if (!next) return;
    target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

// Those who don't see a chart hear which of its words and numbers a control has changed.
function tell(place, view) {
  const heard = element("output", { className: "for-ears" });
  const words = () => [...place.querySelectorAll("svg text")].map(each => each.textContent);
  let before = words();
  const listen = async () => {
    await view.runAsync();
    const now = words(), fresh = now.filter(each => !before.includes(each));
    if (fresh.length) heard.textContent = [...new Set(fresh)].slice(0, 12).join(", ");
    before = now;
  };
  for (const kind of ["change", "click"]) place.addEventListener(kind, listen);
  place.append(heard);
}

const seen = new IntersectionObserver(entries => {
  for (const { isIntersecting, target } of entries)
    if (isIntersecting) {
      seen.unobserve(target);
      draw(target);
    }
}, { rootMargin: "1500px" }); // before one sees it, or the text would shift
document.querySelectorAll(".chart").forEach(chart => seen.observe(chart));

const redraw = () =>
  document.querySelectorAll(".chart:has(.drawn)").forEach(chart => draw(chart));
new MutationObserver(redraw).observe(document.body, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
narrow.addEventListener("change", redraw);

// Pictures come after the words; then they are there to be printed.
addEventListener("load", () =>
  document.querySelectorAll(".chart > .only-light").forEach(each => { each.loading = "eager"; }));

// Live figures come last: the page doesn't wait for them.
const live = document.querySelector(".live");
if (live)
  addEventListener("load", () => {
    const src = live.dataset.home + "live.js";
    document.head.append(element("script", { src }));
  });

// The figure in which a model learns, likewise; each of its scripts needs those before it.
const learn = document.querySelector(".learn");
if (learn)
  addEventListener("load", () => {
    for (const name of ["learner.js", "riddles.js", "learn.js"]) {
      const src = learn.dataset.home + name;
      document.head.append(element("script", { src, async: false }));
    }
  });

// Figures, charts, and what lives in the page open as large as the screen, for a projector: the
// figure itself moves there, and back. A click on a drawing shows the place closer.
const inEnglish = document.documentElement.lang === "en";
const large = element("dialog", { id: "large" });
const grow = (figure, width, height, least = 1) => {
  figure.style.zoom = 1;
  const share = Math.min(width / figure.offsetWidth, height / figure.offsetHeight);
  figure.style.zoom = Math.max(least, share);
};
const fill = () => {
  const figure = large.lastElementChild, drawing = figure.matches(".drawing");
  if (large.classList.contains("closer")) grow(figure, Math.max(900, innerWidth - 8), Infinity);
  else grow(figure, innerWidth - 8, innerHeight - 8, drawing ? 0 : 1);
};
function enlarge(figure) {
  const frame = figure.parentElement, painted = figure.querySelector(".drawn canvas"); // it would be coarse
  const close = element("button", { textContent: "×", onclick: () => large.close() });
  close.setAttribute("aria-label", inEnglish ? "Close" : "关闭");
  const { marginBlock } = getComputedStyle(figure);
  Object.assign(frame.style, { height: `${frame.offsetHeight}px`, marginBlock }); // the page stays where it is
  large.classList.remove("closer");
  large.replaceChildren(close, figure);
  large.showModal();
  if (painted) draw(figure);
  fill();
  const watch = new ResizeObserver(fill); // a figure that learns or answers changes
  watch.observe(figure);
  addEventListener("resize", fill);
  large.addEventListener("close", () => {
    watch.disconnect();
    removeEventListener("resize", fill);
    figure.style.zoom = "";
    frame.prepend(figure);
    Object.assign(frame.style, { height: "", marginBlock: "" });
    if (painted) draw(figure);
    frame.querySelector(".enlarge").focus({ preventScroll: true });
  }, { once: true });
}
large.addEventListener("click", ({ target, clientX, clientY }) => {
  if (target === large) return large.close();
  const svg = target.closest(".drawing svg");
  if (!svg) return;
  const { left, top, width, height } = svg.getBoundingClientRect();
  large.classList.toggle("closer");
  fill();
  const now = svg.getBoundingClientRect();
  large.scrollTo((clientX - left) / width * now.width - large.clientWidth / 2, (clientY - top) / height * now.height - large.clientHeight / 2);
});
document.body.append(large);
for (const figure of document.querySelectorAll(".drawing, .chart, .live, .learn")) {
  const frame = element("div", { className: "frame" }), button = element("button", { type: "button", className: "enlarge" });
  const says = figure.getAttribute("aria-label") ?? figure.closest("section").querySelector("h1, h2, h3").firstChild.textContent;
  button.setAttribute("aria-label", `${inEnglish ? "Enlarge: " : "放大："}${says.slice(0, 80)}`);
  button.addEventListener("click", () => enlarge(figure));
  if (figure.matches(".drawing"))
    figure.querySelector("svg").addEventListener("click", event => {
      if (large.contains(figure)) return;
      event.stopPropagation();
      enlarge(figure);
    });
  figure.replaceWith(frame);
  frame.append(figure, button);
}

// A field checks an answer that needs no PyTorch, by fingerprints of its parts, and says what
// the exercise's own check says of the first that is wrong.
const sealed = async (name, tokens) => {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${name}: ${tokens.join(" ")}`));
  return [...new Uint8Array(bytes)].map(b => b.toString(16).padStart(2, "0")).join("").slice(0, 12);
};
const NUMBER = /-?\d*\.?\d+/g;
const tokens = text => text.match(NUMBER) ?? text.replace(/\band\b/g, "").match(/[a-z]/g) ?? [];
async function fits(given, { name, n, seal, mixed, hidden, within }) {
  if (!hidden) return await sealed(name, mixed ? [...given].sort() : given) === seal;
  const right = JSON.parse(atob(hidden)); // decimals may be rounded
  return given.length === n && right.every((x, k) => Math.abs(x - given[k]) <= within);
}
async function verdict(text, held) {
  const all = tokens(text);
  if (held.true) {
    for (const [letter, says] of Object.entries(held.says))
      if (all.includes(letter) !== held.true.includes(await sealed(held.name, [letter]))) return says;
    return held.right;
  }
  let parts = [...text.matchAll(/[([{]([^()[\]{}]*)[)\]}]|-?\d*\.?\d+/g)].map(([part]) => tokens(part));
  if (parts.length !== held.parts.length) { // without brackets
    let at = 0;
    parts = held.parts.map(({ n }) => all.slice(at, at += n));
    if (at !== all.length) return held.asked;
  }
  for (const [i, part] of held.parts.entries()) {
    if (await fits(parts[i], part)) continue;
    const own = part.n > 1 || parts[i].length !== 1 ? `[${parts[i].join(", ")}]` : parts[i][0];
    return part.says.replace("{}", own);
  }
  return held.right;
}
for (const form of document.querySelectorAll("form.answer"))
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const text = form.querySelector("input").value.normalize("NFKD").toLowerCase();
    form.querySelector("output").textContent = await verdict(text, JSON.parse(form.dataset.held));
  });

// A pill says which section one is in, and leads to the one before and the next.
const headings = [...document.querySelectorAll("article section > :is(h2, h3)")];
if (headings.length > 3 && location.pathname.includes("/notebooks/")) {
  const pill = document.createElement("nav");
  pill.id = "where";
  pill.setAttribute("aria-label", inEnglish ? "Sections" : "各节");
  const [before, here, after] = ["‹", "", "›"].map(text =>
    element("a", { textContent: text }));
  pill.append(before, here, after);
  document.body.append(pill);
  const name = heading => [...heading.childNodes].filter(each => !each.matches?.(".headerlink"))
    .map(each => each.textContent).join("");
  const lead = (link, heading, text) => {
    link.hidden = !heading;
    if (!heading) return;
    link.href = "#" + heading.parentElement.id;
    link.title = name(heading);
    if (text) link.textContent = text;
    else link.setAttribute("aria-label", name(heading));
  };
  const page = location.pathname.split("/").slice(-2).join("/");
  const beside = matchMedia("(max-width: 82em)");
  let last = 0;
  const look = () => {
    const at = headings.findLastIndex(each => each.getBoundingClientRect().top < 120);
    pill.hidden = at < 0;
    if (at >= 0) lead(here, headings[at], name(headings[at]));
    // Where it would cover code, it is away until one scrolls back.
    if (Math.abs(scrollY - last) > 2) { // more than a chart moves the text that is drawn
      pill.classList.toggle("away", beside.matches && scrollY > last);
      last = scrollY;
    }
    lead(before, headings[at - 1]);
    lead(after, headings[at + 1]);
    const share = (scrollY + innerHeight) / document.documentElement.scrollHeight;
    pill.style.setProperty("--read", `${100 * share}%`);
    try {
      localStorage[page] = Math.max(localStorage[page] ?? 0, Math.round(100 * share));
    } catch {} // the browser may keep nothing
  };
  let asked = false;
  const ask = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; look(); });
  };
  addEventListener("scroll", ask, { passive: true });
  new ResizeObserver(ask).observe(document.body); // charts and fonts move the text
  ask(); // with the next frame, when the page is laid out anyway
}

// The front page shows how far one has read.
for (const link of document.querySelectorAll(".chapters a")) {
  let share;
  try { share = localStorage[link.pathname.split("/").slice(-2).join("/")]; } catch {}
  if (share > 5) {
    const bar = element("meter", { max: 100, value: share });
    bar.setAttribute("aria-label", `${share}%`);
    link.after(bar);
  }
}

// Links from outside stay right when numbers move: what counts is the heading's words. Where
// those have changed, the page says what they are now (moved.json).
const words = (id) => id.replace(/\d+\.\d+/, "");
const moved = JSON.parse(document.querySelector("#moved")?.textContent ?? "{}");
function findFormer() {
  const spot = decodeURIComponent(location.hash.slice(1));
  if (!spot || document.getElementById(spot)) return;
  const given = moved[words(spot)];
  if (given) return location.replace(given);
  const all = [...document.querySelectorAll("article [id]")];
  const now = /\d+\.\d+/.test(spot) && all.find(({ id }) => words(id) === words(spot));
  if (now) location.replace("#" + now.id);
}
addEventListener("hashchange", findFormer);
findFormer();

// Terms: a card with the meaning while the pointer or the keyboard is on one.
const card = document.createElement("div");
card.id = "term-card";
card.setAttribute("role", "tooltip");
card.hidden = true;
document.body.append(card);

const touch = matchMedia("(hover: none)");
function show({ currentTarget: term }) {
  const spot = decodeURIComponent(term.hash.slice(1));
  if (!(spot in GLOSSARY)) return;
  card.textContent = GLOSSARY[spot];
  if (touch.matches) {
    const more = element("a", { href: term.href, textContent: "→" });
    more.setAttribute("aria-label", term.textContent);
    card.append(" ", more);
  }
  card.hidden = false;
  card.term = term;
  const box = term.getBoundingClientRect();
  const room = document.documentElement.clientWidth - card.offsetWidth - 8;
  card.style.left = Math.max(8, Math.min(box.left, room)) + "px";
  const below = box.bottom + card.offsetHeight + 8 < innerHeight;
  card.style.top = (below ? box.bottom + 4 : box.top - card.offsetHeight - 4) + "px";
  term.setAttribute("aria-describedby", card.id);
}
function hide() {
  card.hidden = true;
  card.term?.removeAttribute("aria-describedby");
}
for (const term of document.querySelectorAll("a.term")) {
  for (const event of ["mouseenter", "focus"]) term.addEventListener(event, show);
  for (const event of ["mouseleave", "blur"])
    term.addEventListener(event, () => touch.matches || hide());
  // A finger can't hover: the first tap shows the card, which leads on.
  term.addEventListener("click", event => touch.matches && event.preventDefault());
}
addEventListener("keydown", event => event.key === "Escape" && hide());
addEventListener("pointerdown", ({ target }) => {
  if (touch.matches && !card.contains(target) && !target.closest?.("a.term")) hide();
});

// Two columns beside the text are told apart by their names.
const title = document.querySelector(".toc-title");
if (title) {
  title.id = "toc-title";
  document.querySelector(".toc-drawer").setAttribute("aria-labelledby", title.id);
}

// Boxes that scroll can be reached with the keyboard.
const reachable = () => {
  // What is behind a click isn't laid out yet, and all are read before one is written: else
  // the page would be laid out anew for each.
  const boxes = [...document.querySelectorAll("pre, .table-wrapper, div.math, .drawing")]
    .filter(each => !each.closest("details:not([open])") && each.scrollWidth > each.clientWidth);
  for (const box of boxes) box.tabIndex = 0;
};
addEventListener("load", reachable);
addEventListener("resize", reachable);
document.addEventListener("toggle", reachable, true); // a solution opens

// A lecture can be shown slide by slide.
const lecture = document.querySelector(".lecture");
if (lecture) {
  const root = document.documentElement;
  const slides = [...document.querySelectorAll("article section section")];
  slides.forEach((slide, n) => { slide.dataset.place = `${n + 1} / ${slides.length}`; });
  let at = 0;
  const turn = to => {
    at = Math.max(0, Math.min(to, slides.length - 1));
    slides.forEach((slide, n) => slide.classList.toggle("now", n === at));
    scrollTo(0, 0);
    widen();
  };
  // A figure has all the room that the words on its slide leave.
  const shown = () => document.querySelector(".presenting section.now :is(.chart, .drawing, .live, .learn)");
  const widen = () => {
    const figure = shown();
    if (!figure) return;
    const slide = figure.closest("section"), frame = figure.parentElement;
    figure.style.zoom = 1;
    slide.style.minHeight = 0;
    const words = slide.offsetHeight - frame.offsetHeight;
    slide.style.minHeight = "";
    grow(figure, slide.clientWidth - 48, innerHeight - words - 24);
  };
  const watch = new ResizeObserver(() => large.open || widen());
  document.querySelectorAll(".frame > *").forEach(each => watch.observe(each));
  addEventListener("resize", () => large.open || widen());
  const leave = () => {
    const figure = shown();
    if (figure) figure.style.zoom = "";
    root.classList.remove("presenting", "with-notes");
  };
  const present = element("button", { type: "button", textContent: "Present" });
  present.addEventListener("click", () => { root.classList.add("presenting"); turn(at); });
  lecture.append(present);
  const keys = {
    ArrowRight: () => turn(at + 1), PageDown: () => turn(at + 1), " ": () => turn(at + 1),
    ArrowLeft: () => turn(at - 1), PageUp: () => turn(at - 1),
    n: () => { root.classList.toggle("with-notes"); widen(); }, Escape: leave,
  };
  addEventListener("keydown", event => {
    const moves = event.target.closest?.("input, select, textarea, [role=button]"); // a figure's own keys
    if (!root.classList.contains("presenting") || large.open || (moves && event.key !== "Escape")) return;
    if (event.key in keys) { keys[event.key](); event.preventDefault(); }
  });
}
