// Search shows excerpts by fetching pages, which a page opened from disk can't do.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

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
  const chosen = [...chart.querySelectorAll("select, input")].map(e => e.value);
  const { view } = await vegaEmbed(place, spec, { renderer: "svg", actions: false });
  place.querySelector("svg").setAttribute("aria-hidden", "true"); // the label says it
  place.querySelectorAll("select, input").forEach((each, i) => {
    each.setAttribute("aria-label", each.name);
    if (i in chosen) {
      each.value = chosen[i];
      each.dispatchEvent(new Event("input"));
      each.dispatchEvent(new Event("change"));
    }
  });
  chart.view?.finalize();
  chart.querySelector(".drawn")?.remove();
  place.classList.add("drawn");
  chart.append(place);
  chart.view = view;
}

const seen = new IntersectionObserver(entries => {
  for (const { isIntersecting, target } of entries)
    if (isIntersecting) {
      seen.unobserve(target);
      draw(target);
    }
}, { rootMargin: "200px" });
document.querySelectorAll(".chart").forEach(chart => seen.observe(chart));

const redraw = () =>
  document.querySelectorAll(".chart:has(.drawn)").forEach(chart => draw(chart));
new MutationObserver(redraw).observe(document.body, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

// Terms: a card with the meaning while the pointer or the keyboard is on one.
const card = document.createElement("div");
card.id = "term-card";
card.setAttribute("role", "tooltip");
card.hidden = true;
document.body.append(card);

function show({ currentTarget: term }) {
  const spot = decodeURIComponent(term.hash.slice(1));
  if (!(spot in GLOSSARY)) return;
  card.textContent = GLOSSARY[spot];
  card.hidden = false;
  const box = term.getBoundingClientRect();
  const room = document.documentElement.clientWidth - card.offsetWidth - 8;
  card.style.left = Math.max(8, Math.min(box.left, room)) + "px";
  const below = box.bottom + card.offsetHeight + 8 < innerHeight;
  card.style.top = (below ? box.bottom + 4 : box.top - card.offsetHeight - 4) + "px";
  term.setAttribute("aria-describedby", card.id);
}
function hide({ currentTarget: term }) {
  card.hidden = true;
  term.removeAttribute("aria-describedby");
}
for (const term of document.querySelectorAll("a.term")) {
  for (const event of ["mouseenter", "focus"]) term.addEventListener(event, show);
  for (const event of ["mouseleave", "blur"]) term.addEventListener(event, hide);
}
addEventListener("keydown", event => event.key === "Escape" && (card.hidden = true));

// Boxes that scroll can be reached with the keyboard; formulas get their width late.
const reachable = () => {
  for (const box of document.querySelectorAll("pre, .table-wrapper, div.math"))
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
};
addEventListener("load", () => (window.MathJax?.startup?.promise ?? Promise.resolve()).then(reachable));
addEventListener("resize", reachable);
document.addEventListener("toggle", reachable, true); // a solution opens
