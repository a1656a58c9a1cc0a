// Light and dark: the system's theme, until the user chooses.
const system = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null;
try { chosenTheme = localStorage.getItem("popbandits-theme"); } catch { /* A file may have no storage. */ }
const theme = () => chosenTheme ?? (system.matches ? "dark" : "light");
const redraws = [];

function paint() {
  const other = theme() === "dark" ? "Light" : "Dark";
  document.documentElement.dataset.theme = theme();
  const button = document.getElementById("theme");
  button.textContent = other;
  button.setAttribute("aria-label", `Switch to ${other.toLowerCase()} colours`);
  redraws.forEach((redraw) => redraw());
}

document.getElementById("theme").addEventListener("click", () => {
  chosenTheme = theme() === "dark" ? "light" : "dark";
  try { localStorage.setItem("popbandits-theme", chosenTheme); } catch { /* as above */ }
  paint();
});
system.addEventListener("change", paint);
paint();
