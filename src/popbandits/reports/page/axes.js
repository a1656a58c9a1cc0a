// The axes of the learning curves: a reader chooses among those that have data.
const horizontal = document.getElementById("x-axis");
const vertical = document.getElementById("y-axis");
const steep = document.getElementById("steep");
const far = document.getElementById("far");
const METRIC = "metric:"; // Begins the value of a metric's option, so that one may be called "score".

function offer(select, options) {
  const offered = JSON.stringify(options);
  select.closest("label").hidden = options.length < 2;
  if (select.dataset.offered === offered) return; // A list that is open stays open.
  const chosen = select.value;
  select.replaceChildren(...options.map(([value, label]) => new Option(label, value)));
  select.value = options.some(([value]) => value === chosen) ? chosen : options[0][0];
  select.dataset.offered = offered;
}

function offerAxes({ x, y, steep: round, far: count }) {
  far.closest("label").hidden = !count;
  far.nextElementSibling.textContent = count === 1 ? "leave out 1 far score" : `leave out ${count} far scores`;
  steep.closest("label").hidden = !round;
  steep.nextElementSibling.textContent = `leave out the steep start, before round ${round}`;
  offer(horizontal, [["round", "round"], ...Object.entries(x).map(([field, { label }]) => [field, label])]);
  offer(vertical, [["score", "score"], ...Object.entries(y).map(([name, { label }]) => [METRIC + name, label])]);
}

const chosenMetric = () => (vertical?.value.startsWith(METRIC) ? vertical.value.slice(METRIC.length) : null);

// The specification and data of a figure along the chosen axes; `values` holds those of the metric, in the order of the
// data. Rows of a steep start, if the reader leaves it out, and those without a number on either axis are left out; the
// limit of the axis of scores, beyond which far ones are, is lifted where the reader wants to see them.
function along({ spec, data, axes }, values) {
  const [x, metric, from] = [horizontal.value, chosenMetric(), steep.checked ? axes.steep : 0];
  const lifted = axes.far && (metric !== null || !far.checked);
  if (x === "round" && metric === null && !from && !lifted) return { spec, data };
  const made = structuredClone(spec);
  for (const layer of made.layer) {
    const { encoding } = layer;
    if (lifted) {
      encoding.y.scale = { zero: false };
      layer.transform = layer.transform.filter((step) => !("filter" in step));
    }
    if (x === "round") encoding.x.scale.domain[0] = from;
    if (metric !== null) {
      const title = axes.y[metric].title;
      encoding.y = { ...encoding.y, field: "value", title };
      const shown = encoding.tooltip?.find(({ field }) => field === "score");
      if (shown) Object.assign(shown, { field: "value", title: axes.y[metric].label });
    }
    if (x !== "round") {
      encoding.x = axes.x[x].encoding;
      encoding.tooltip?.push({ field: x, type: "quantitative", title: encoding.x.title, format: ".6~g" });
    }
  }
  const known = (value) => value !== null && value !== undefined;
  const rows = Object.entries(data).map(([source, all]) => [source, all
    .map((row, i) => (metric === null ? { ...row, value: row.score } : { ...row, value: values[source][i] }))
    .filter((row) => row.round >= from && known(row[x]) && known(row.value))]);
  return { spec: made, data: Object.fromEntries(rows) };
}
