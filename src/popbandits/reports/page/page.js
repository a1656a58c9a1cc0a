// Draws the figures, switches between light and dark, brings out a member, sorts and filters the table.
// Whatever a user named reaches the page as text only: through textContent, or as data of a chart.
const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const views = [];

// Light and dark

const system = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
try { chosen = localStorage.getItem("popbandits-theme"); } catch { /* A file may not be allowed to remember. */ }
const dark = () => (chosen ?? (system.matches ? "dark" : "light")) === "dark";
const toggle = document.getElementById("theme");

function paint() {
  root.dataset.theme = dark() ? "dark" : "light";
  toggle.textContent = dark() ? "Light" : "Dark";
  toggle.setAttribute("aria-label", dark() ? "Switch to light colours" : "Switch to dark colours");
}

toggle.addEventListener("click", () => {
  chosen = dark() ? "light" : "dark";
  try { localStorage.setItem("popbandits-theme", chosen); } catch { /* as above */ }
  paint();
  draw();
});
system.addEventListener("change", () => { paint(); draw(); });

// Figures

let drawing = 0;

async function draw() {
  const mine = ++drawing;
  delete document.body.dataset.ready;
  views.splice(0).forEach((view) => view.finalize());
  for (const place of document.querySelectorAll(".chart")) {
    const { view } = await vegaEmbed(place, data.figures[place.dataset.figure], {
      mode: "vega-lite",
      renderer: "canvas",
      config: data.configs[dark() ? "dark" : "light"],
      tooltip: { theme: dark() ? "dark" : "light" },
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: place.dataset.figure,
    });
    if (mine !== drawing) { view.finalize(); return; }
    // The chart is described in words beside it; what Vega says of each mark would be read out one by one.
    place.setAttribute("role", "img");
    views.push(view);
    bringOut(view);
  }
  document.body.dataset.ready = "true";
}

const member = document.getElementById("member");

function bringOut(view) {
  if (member && "member" in view.getState().signals) {
    view.signal("member", Number(member.value)).run();
  }
}

member?.addEventListener("change", () => views.forEach(bringOut));

// The table

const table = document.getElementById("intervals");
const PAGE = 50;

if (table) {
  const { columns, rows } = data.table;
  const filter = document.getElementById("filter");
  const onlyWinning = document.getElementById("winning");
  const found = document.getElementById("found");
  const winning = columns.indexOf("winning");
  const texts = rows.map((row) => row.map(show).join("\u0000").toLowerCase());
  let order = rows.map((_, i) => i);
  let page = 0;

  function show(value) {
    if (value === null) return "";
    if (value === true) return "yes";
    if (value === false) return "no";
    if (typeof value !== "number") return value;
    return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(5)));
  }

  function compare(a, b) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === typeof b && typeof a !== "string") return a - b;
    return String(a).localeCompare(String(b));
  }

  function kept() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    return order.filter((i) =>
      (!onlyWinning.checked || rows[i][winning]) && words.every((word) => texts[i].includes(word)));
  }

  function fill() {
    const shown = kept();
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    page = Math.min(page, pages - 1);
    const body = document.createElement("tbody");
    for (const i of shown.slice(page * PAGE, (page + 1) * PAGE)) {
      const line = body.insertRow();
      line.classList.toggle("winning", rows[i][winning] === true);
      rows[i].forEach((value) => {
        const cell = line.insertCell();
        cell.textContent = show(value);
        if (typeof value === "number") cell.className = "number";
        if (typeof value === "string" && value.length > 40) cell.title = value;
      });
    }
    table.tBodies[0].replaceWith(body);
    found.textContent = `${shown.length.toLocaleString("en")} intervals, page ${page + 1} of ${pages}`;
    document.getElementById("previous").disabled = page === 0;
    document.getElementById("next").disabled = page === pages - 1;
  }

  table.querySelectorAll("th button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const heading = button.closest("th");
      const down = heading.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      order.sort((a, b) => {
        const [x, y] = [rows[a][column], rows[b][column]];
        return x === null || y === null ? compare(x, y) : (down ? -1 : 1) * compare(x, y);
      });
      page = 0;
      fill();
    });
  });
  filter.addEventListener("input", () => { page = 0; fill(); });
  onlyWinning.addEventListener("change", () => { page = 0; fill(); });
  document.getElementById("previous").addEventListener("click", () => { page -= 1; fill(); });
  document.getElementById("next").addEventListener("click", () => { page += 1; fill(); });
  fill();
}

paint();
draw();
