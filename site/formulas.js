// Render formulas: from [[TeX, display], …] to {formulas: [[SVG, MathML], …], glyphs: {id: path}}.
const folder = process.argv[2];
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const settings = {
  loader: {
    load: ["input/tex", "output/svg", "adaptors/liteDOM"],
    paths: { mathjax: folder },
  },
  svg: { fontCache: "global" },
};
require(folder + "/node-main.js").init(settings).then(MathJax => {
  const { adaptor, document } = MathJax.startup;
  const formulas = given.map(([tex, display]) => [
    adaptor.outerHTML(adaptor.firstChild(MathJax.tex2svg(tex, { display }))),
    MathJax.tex2mml(tex, { display }),
  ]);
  const glyphs = {};
  for (const path of adaptor.childNodes(document.outputJax.fontCache.getCache()))
    glyphs[adaptor.getAttribute(path, "id")] = adaptor.getAttribute(path, "d");
  process.stdout.write(JSON.stringify({ formulas, glyphs }));
});
