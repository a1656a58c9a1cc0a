// Draws figures with Vega, which must be loaded as vegaEmbed; CONFIGS holds the colours of both themes.

let drawing = Promise.resolve();

function drawLater(work) {
  drawing = drawing.then(work).catch((error) => console.error(error));
}

// Draws a figure as it is, or narrower if there is no room for it.
async function embed(place, spec) {
  const room = place.clientWidth;
  let view = await embedAs(place, spec);
  for (let inside = room - 60; place.scrollWidth > room && inside > 100;) {
    const [columns, excess] = [inside < 250 ? 1 : 2, place.scrollWidth - room];
    view.finalize();
    view = await embedAs(place, narrower(spec, inside, columns));
    inside -= Math.max(20, Math.min(excess, place.scrollWidth - room));
  }
  return view;
}

async function embedAs(place, spec) {
  const { view } = await vegaEmbed(place, spec, {
    mode: "vega-lite",
    renderer: "canvas",
    config: CONFIGS[theme()],
    tooltip: { theme: theme() },
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: place.dataset.figure,
  });
  // The caption describes the chart; screen readers would read Vega's labels mark by mark.
  place.setAttribute("role", "img");
  return view;
}

// The panels of a figure below one another, each at most `inside` pixels wide, with legends of so many columns above.
function narrower(spec, inside, columns) {
  const { hconcat, ...made } = structuredClone(spec);
  if (hconcat) made.vconcat = hconcat;
  if (made.concat) made.columns = 1;
  if (made.width) made.width = Math.min(made.width, inside);
  for (const kind of ["concat", "vconcat", "layer"]) {
    if (made[kind]) made[kind] = made[kind].map((part) => narrower(part, inside, columns));
  }
  for (const channel of Object.values(made.encoding ?? {})) {
    if (channel.scale?.domain && "legend" in channel ? channel.legend : channel.scale?.range) {
      channel.legend = { ...channel.legend, columns, orient: "top", direction: "horizontal" };
    }
  }
  return made;
}

function highlight(view, member) {
  if ("member" in view.getState().signals) view.signal("member", member).run();
}

let width = innerWidth;
let resized = null;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => {
    if (width === innerWidth) return; // A phone's bars only change the height.
    width = innerWidth;
    redraws.forEach((redraw) => redraw());
  }, 200);
});
