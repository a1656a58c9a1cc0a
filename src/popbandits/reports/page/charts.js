// Draws figures with Vega, which has to be there as vegaEmbed; CONFIGS holds the colours of both themes.

async function embed(place, spec) {
  const { view } = await vegaEmbed(place, spec, {
    mode: "vega-lite",
    renderer: "canvas",
    config: CONFIGS[theme()],
    tooltip: { theme: theme() },
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: place.dataset.figure,
  });
  // The chart is described in words beside it; what Vega says of each mark would be read out one by one.
  place.setAttribute("role", "img");
  return view;
}

function bringOut(view, member) {
  if ("member" in view.getState().signals) view.signal("member", member).run();
}
