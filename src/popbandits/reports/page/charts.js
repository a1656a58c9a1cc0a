// Draws figures with Vega, which must be loaded as vegaEmbed; CONFIGS holds the colours of both themes.

async function embed(place, spec) {
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

function highlight(view, member) {
  if ("member" in view.getState().signals) view.signal("member", member).run();
}
