// Light and dark: as the system has it, until somebody chooses.
const system = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null;
try { chosenTheme = localStorage.getItem("popbandits-theme"); } catch { /* A file may not be allowed to remember. */ }
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
