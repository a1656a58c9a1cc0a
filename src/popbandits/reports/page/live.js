// Follows one run: the server sends everything at first, then what changed.
// Users' names and labels reach the page only as text: through textContent, or as data of a chart.
const run = document.body.dataset.run;
const at = (path, more = {}) => `${path}?${new URLSearchParams({ run, ...more })}`;
const place = (id) => document.getElementById(id);
document.getElementById("report").href = at("report");

function element(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  Object.entries(attributes).forEach(([name, value]) => value !== null && made.setAttribute(name, value));
  made.append(...inside.filter((one) => one !== null));
  return made;
}

function say(id, text) {
  const where = place(id);
  if (where.textContent !== text) where.textContent = text;
}

const clock = (time) => new Date(1000 * time).toLocaleTimeString();
const signed = (value) => (value === null ? "" : `${value > 0 ? "+" : ""}${show(value)}`);

// Figures

const vega = import("./vega.js");
const charts = {}; // name -> { figure, drawn, view }

// A metric is not sent until it is chosen: the server answers with it, and with the data in the same order.
async function withMetric(figure) {
  const metric = figure.axes ? chosenMetric() : null;
  if (metric === null) return figure;
  const answer = await fetch(at("api/curves", { metric }));
  return answer.ok ? { ...figure, ...(await answer.json()) } : null;
}

async function drawChart(name) {
  const chart = charts[name];
  const figure = await withMetric(chart.figure);
  if (figure === null) return; // The run was removed: the page says so, and stays as it is.
  const { spec, data } = figure.axes ? along(figure, figure.values) : figure;
  const where = document.querySelector(`[data-figure=${name}]`);
  const drawn = JSON.stringify([spec, theme(), innerWidth]);
  if (chart.drawn === drawn) {
    Object.entries(data).forEach(([source, rows]) => chart.view.data(source, rows));
    await chart.view.runAsync();
    if (where.scrollWidth <= where.clientWidth) return; // Else labels have grown.
  }
  await vega;
  chart.view?.finalize();
  chart.view = await embed(where, { ...spec, datasets: data });
  chart.drawn = drawn;
  highlight(chart.view, chosen ?? -1);
  document.body.dataset.ready = "true";
}

async function drawFigures(figures) {
  for (const [name, figure] of Object.entries(figures)) {
    const chart = (charts[name] ??= {});
    chart.figure = { ...chart.figure, ...figure };
    document.querySelector(`#figure-${name} .words`).textContent = figure.caption;
    document.querySelector(`[data-figure=${name}]`).setAttribute("aria-label", `${figure.title}. ${figure.caption}`);
    if (figure.axes) offerAxes(figure.axes);
    await drawChart(name);
  }
}

redraws.push(() => Object.keys(charts).forEach((name) => drawLater(() => drawChart(name))));
[horizontal, vertical, steep, far].forEach((select) =>
  select.addEventListener("change", () => drawLater(() => drawChart("learning"))));

// Members

let chosen = null;
const rows = new Map();
const members = fillTable("members", "member", {
  length: 12,
  first: () => {
    const button = element("button", { type: "button" });
    button.addEventListener("click", () => choose(Number(button.dataset.member)));
    return button;
  },
  update(button, [number]) {
    button.dataset.member = number;
    button.textContent = `member ${number}`;
    button.setAttribute("aria-pressed", String(number === chosen));
  },
  mark(line, row) {
    line.dataset.state = row[1];
    line.classList.toggle("chosen", row[0] === chosen);
  },
});

function choose(number) {
  chosen = number === chosen ? null : number;
  members.fill();
  Object.values(charts).forEach(({ view }) => view && highlight(view, chosen ?? -1));
  if (chosen === null) place("member").hidden = true;
  else showMember(true);
}

async function showMember(move) {
  const number = chosen;
  const answer = await fetch(at("api/member", { member: number }));
  const known = answer.ok ? await answer.json() : null;
  if (number !== chosen || known === null) return; // Another was chosen meanwhile, or none.
  const opened = new Set([...place("member").querySelectorAll("details[open]")].map((one) => one.dataset.round));
  const heading = element("h3", { tabindex: "-1", id: "member-name" },
    `Member ${known.member}, ${known.training ? "training in" : "after"} round ${known.round}`);
  const close = element("button", { type: "button" }, "Close");
  close.addEventListener("click", () => { const was = chosen; choose(was); focusMember(was); });
  const had = document.activeElement?.id === "member-name" || move;
  place("member").replaceChildren(
    element("div", { class: "controls" }, heading, close),
    element("dl", { class: "settings" }, ...known.config.flatMap(({ name, value, before }) => [
      element("dt", {}, ...breakable(name)),
      element("dd", {}, ...breakable(value),
        before === null ? null : element("span", { class: "soft" },
          ...breakable(known.from === null ? ` was ${before}` : ` member ${known.from} had ${before}`))),
    ])),
    known.fallback === null ? "" : element("p", {}, `Chosen at random, not by the model: ${known.fallback}`),
    element("p", {}, "Descends from: ", ...parents(known.lineage)),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Its intervals" },
      intervals(known.intervals)),
    ...known.intervals.filter(({ status }) => status !== "completed").map((one) => failure(known.member, one, opened)),
  );
  place("member").hidden = false;
  place("member").setAttribute("aria-labelledby", "member-name");
  if (had) heading.focus({ preventScroll: !move });
}

function focusMember(number) {
  [...place("members").querySelectorAll("button")].find((one) => one.dataset.member === String(number))?.focus();
}

function parents(lineage) {
  return lineage.flatMap(([number, first, last], i) => {
    const rounds = first === last ? `round ${first}` : `rounds ${first}–${last}`;
    const button = element("button", { type: "button", class: "plain" }, `member ${number}`);
    button.addEventListener("click", () => { if (number !== chosen) choose(number); });
    return [i ? " ← " : "", number === chosen ? `member ${number}` : button, ` (${rounds})`];
  });
}

function intervals(known) {
  const heads = ["round", "status", "score", "change", "from", "seconds", "hyperparameters"];
  const table = element("table", {}, element("caption", {}, element("span", {}, "Its last intervals")),
    element("thead", {}, element("tr", {}, ...heads.map((name) => element("th", { scope: "col" }, name)))));
  const body = table.createTBody();
  for (const one of known) {
    const line = body.insertRow();
    line.dataset.state = one.status;
    const from = one.from === null ? "" : `member ${one.from[0]}, round ${one.from[1]}`;
    const seconds = one.seconds === null ? "" : one.seconds.toPrecision(3);
    for (const text of [one.round, one.status, show(one.score), signed(one.change), from, seconds, one.config]) {
      line.insertCell().append(...breakable(text));
    }
    line.lastChild.classList.add("words");
  }
  return table;
}

function failure(number, { round, said }, opened) {
  const whole = element("a", { href: at("failure", { member: number, round }), target: "_blank" }, "full text");
  return element("details", { "data-round": round, ...(opened.has(String(round)) ? { open: "" } : {}) },
    element("summary", {}, `Round ${round}: `,
      ...breakable((said ?? "its score was NaN").split("\n")[0].slice(0, 200))),
    said === null ? "" : element("pre", {}, said), said === null ? "" : whole);
}

// Messages of the server

const LOG = 200;
let version = null;

function take(news) {
  version = news.version;
  place("wrong").hidden = !news.wrong;
  say("wrong", news.wrong ?? "");
  if (news.wrong) return;
  if (news.whole) {
    rows.clear();
    place("log").replaceChildren();
  }
  place("facts").replaceChildren(...Object.entries(news.facts).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  say("method", news.about);
  say("told", news.told);
  warn(news.warned);
  document.body.dataset.state = news.state;
  news.members.forEach((row) => rows.set(row[0], row));
  if (news.members.length) members.update([...rows.values()].sort((a, b) => a[0] - b[0]));
  place("log").prepend(...news.log.map(entry).reverse());
  while (place("log").children.length > LOG) place("log").lastChild.remove();
  if (chosen !== null && news.members.some(([number]) => number === chosen)) showMember(false);
  drawLater(() => drawFigures(news.figures));
}

function warn(texts) {
  const list = place("warned").querySelector("ul");
  const shown = [...list.children].map((one) => one.textContent);
  if (JSON.stringify(shown) === JSON.stringify(texts)) return; // Screen readers read it once.
  list.replaceChildren(...texts.map((text) => element("li", {}, ...breakable(text))));
  place("warned").hidden = !texts.length;
}

function entry({ time, kind, member, round, text }) {
  const who = member === null ? "" : `member ${member}, round ${round}: `;
  return element("li", { "data-kind": kind }, element("time", {}, clock(time)), ` ${who}`,
    kind === "explored" ? "" : element("b", {}, kind, " "), ...breakable(text));
}

let source = null;

function follow() {
  source = new EventSource(at("api/news"));
  source.onopen = () => say("link", "Live");
  source.onerror = () => say("link", "Not connected; trying again");
  source.onmessage = ({ data }) => take(JSON.parse(data));
}

place("pause").addEventListener("click", () => {
  const paused = source !== null;
  place("pause").setAttribute("aria-pressed", String(paused));
  place("pause").textContent = paused ? "Resume" : "Pause";
  if (paused) {
    source.close();
    source = null;
    say("link", "Paused: the page is not updated");
  } else follow();
});

follow();
