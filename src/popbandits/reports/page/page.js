// The report: draws the figures, highlights a member, fills the table.
// Users' names and labels reach the page only as text: through textContent, or as data of a chart.
const data = JSON.parse(document.getElementById("data").textContent);
const CONFIGS = data.configs;
const member = document.getElementById("member");
const views = {}; // by name
let latest = 0;

function specOf(name) {
  const { datasets, ...spec } = data.figures[name];
  const axes = data.axes[name];
  const made = axes ? along({ spec, data: datasets, axes }, data.values[chosenMetric()]) : { spec, data: datasets };
  return { ...made.spec, datasets: made.data };
}

function draw(places) {
  const mine = ++latest;
  delete document.body.dataset.ready;
  drawLater(async () => {
    for (const place of places) {
      const name = place.dataset.figure;
      if (mine !== latest && places.length > 1) return; // All are drawn again.
      views[name]?.finalize();
      views[name] = await embed(place, specOf(name));
      if (member) highlight(views[name], Number(member.value));
    }
    if (mine === latest) document.body.dataset.ready = "true";
  });
}

const drawAll = () => draw([...document.querySelectorAll(".chart")]);
member?.addEventListener("change", () =>
  Object.values(views).forEach((view) => highlight(view, Number(member.value))));
Object.entries(data.axes).forEach(([name, axes]) => {
  offerAxes(axes);
  const again = () => draw([document.querySelector(`[data-figure=${name}]`)]);
  [horizontal, vertical, steep, far].forEach((select) => select.addEventListener("change", again));
});

const onlyWinning = document.getElementById("winning");
for (const [name, { columns, rows }] of Object.entries(data.tables)) {
  const winning = columns.indexOf("winning");
  const filled = fillTable(name, name === "copies" ? "copy" : "interval", {
    mark: (line, row) => line.classList.toggle("winning", row[winning] === true),
    keep: (row) => name === "copies" || !onlyWinning.checked || row[winning] === true,
  });
  if (name === "intervals") onlyWinning.addEventListener("change", filled.again);
  filled.update(rows);
}

redraws.push(drawAll);
drawAll();
