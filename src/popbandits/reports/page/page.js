// The report: draws the figures, highlights a member, fills the table.
// Users' names and labels reach the page only as text: through textContent, or as data of a chart.
const data = JSON.parse(document.getElementById("data").textContent);
const CONFIGS = data.configs;
const member = document.getElementById("member");
const views = [];
let drawing = 0;

async function draw() {
  const mine = ++drawing;
  delete document.body.dataset.ready;
  views.splice(0).forEach((view) => view.finalize());
  for (const place of document.querySelectorAll(".chart")) {
    const view = await embed(place, data.figures[place.dataset.figure]);
    if (mine !== drawing) { view.finalize(); return; }
    views.push(view);
    if (member) highlight(view, Number(member.value));
  }
  document.body.dataset.ready = "true";
}

member?.addEventListener("change", () => views.forEach((view) => highlight(view, Number(member.value))));

if (data.table) {
  const onlyWinning = document.getElementById("winning");
  const winning = data.table.columns.indexOf("winning");
  const intervals = fillTable("intervals", "interval", {
    mark: (line, row) => line.classList.toggle("winning", row[winning] === true),
    keep: (row) => !onlyWinning.checked || row[winning] === true,
  });
  onlyWinning.addEventListener("change", intervals.again);
  intervals.update(data.table.rows);
}

redraws.push(draw);
draw();
