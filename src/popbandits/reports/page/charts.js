// Draws figures with Vega, which must be loaded as vegaEmbed; CONFIGS holds the colours of both themes.

let drawing = Promise.resolve();

function drawLater(work) {
  drawing = drawing.then(work).catch((error) => console.error(error));
}

// Draws a figure as it is or, if there is no room for it, narrower.
async function embed(place, spec) {
  place.ariaBusy = "true";
  const room = place.clientWidth;
  let view = await embedAs(place, spec);
  let inside = room - 60;
  for (let tries = 0; tries < 3 && place.scrollWidth > room; tries += 1) {
    if (tries) inside = Math.max(120, inside - (place.scrollWidth - room));
    view.finalize();
    view = await embedAs(place, narrower(spec, inside));
  }
  place.removeAttribute("aria-busy");
  return view;
}

async function embedAs(place, spec) {
  const sliders = place.parentElement.querySelector(".sliders");
  sliders.replaceChildren();
  const { view } = await vegaEmbed(place, spec, {
    mode: "vega-lite",
    renderer: "canvas",
    bind: sliders, // Beside the picture, in which a screen reader would not find them.
    config: CONFIGS[theme()],
    tooltip: { theme: theme() },
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: place.dataset.figure,
  });
  // The caption describes the chart; screen readers would read Vega's labels mark by mark.
  place.setAttribute("role", "img");
  return view;
}

// The panels of a figure below one another, each about `inside` pixels wide, with legends above them.
function narrower(spec, inside) {
  const { hconcat, ...made } = structuredClone(spec);
  if (hconcat) made.vconcat = hconcat;
  if (made.concat) made.columns = 1;
  if (made.width) made.width = Math.min(inside, Math.max(400, made.width));
  if (made.title) made.title = { ...made.title, fontSize: 12, limit: inside };
  if (made.spec) made.spec = narrower(made.spec, inside);
  for (const kind of ["concat", "vconcat", "layer"]) {
    if (made[kind]) made[kind] = made[kind].map((part) => narrower(part, inside));
  }
  for (const channel of Object.values(made.encoding ?? {})) {
    if (channel.scale?.range && channel.legend !== null) {
      const letters = Math.max(...channel.scale.domain.map((name) => String(name).length));
      const columns = Math.max(1, Math.floor((inside + 20) / (30 + 5.5 * letters))); // About, in pixels.
      channel.legend = { ...channel.legend, columns, labelLimit: inside - 20, orient: "top", direction: "horizontal" };
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
