// A table that is filtered, sorted and paged. Users' names and labels are shown through textContent.
function show(value) {
  if (value === null || value === undefined) return "";
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value !== "number") return value;
  const digits = Math.abs(value) < 1e4 ? 5 : 9; // Large scores may differ by little.
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(digits)));
}

// A text whose long names may be broken after their separators, as nodes; numbers are not broken.
function breakable(text) {
  const parts = String(text).split(/(?<=[_./:=])(?=[^\s\d_./:=])/);
  return parts.flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part]));
}

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === typeof b && typeof a !== "string") return a - b;
  return String(a).localeCompare(String(b));
}

// `name` is the table's id, a plural of `noun`. `first` makes the content of a row's first cell and `update` sets it, `mark` sets a row's classes, `keep` filters,
// `length` is the number of rows on a page.
function fillTable(name, noun, { first, update, mark, keep, length = 50 } = {}) {
  const part = (suffix) => document.getElementById(`${name}-${suffix}`);
  const table = document.getElementById(name);
  const filter = part("filter");
  let rows = [];
  let texts = [];
  let order = [];
  let sorted = null;
  let page = 0;

  function sort() {
    order = rows.map((_, i) => i);
    if (!sorted) return;
    const { column, down } = sorted;
    order.sort((a, b) => {
      const [x, y] = [rows[a][column], rows[b][column]];
      return x === null || y === null ? compare(x, y) : (down ? -1 : 1) * compare(x, y);
    });
  }

  function kept() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    return order.filter((i) => (!keep || keep(rows[i])) && words.every((word) => texts[i].includes(word)));
  }

  // Rows and cells are reused, so that the focus stays.
  function fill() {
    const shown = kept();
    const pages = Math.max(1, Math.ceil(shown.length / length));
    page = Math.min(page, pages - 1);
    const body = table.tBodies[0];
    const here = shown.slice(page * length, (page + 1) * length);
    while (body.rows.length > here.length) body.deleteRow(-1);
    here.forEach((i, place) => {
      const line = body.rows[place] ?? body.insertRow();
      mark?.(line, rows[i]);
      rows[i].slice(0, table.tHead.rows[0].cells.length).forEach((value, column) => {
        let cell = line.cells[column];
        if (!cell) {
          cell = line.insertCell();
          if (column === 0 && first) cell.append(first());
        }
        if (column === 0 && update) { update(cell.firstChild, rows[i]); return; }
        const text = show(value);
        if (cell.textContent !== text) cell.replaceChildren(...(text.length > 40 ? breakable(text) : [text]));
        cell.classList.toggle("number", typeof value === "number");
        cell.classList.toggle("words", text.length > 40);
      });
    });
    part("found").textContent =
      `${shown.length.toLocaleString("en")} ${shown.length === 1 ? noun : name}, page ${page + 1} of ${pages}`;
    part("previous").disabled = page === 0;
    part("next").disabled = page === pages - 1;
  }

  table.querySelectorAll("th button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const heading = button.closest("th");
      const down = heading.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      sorted = { column, down };
      page = 0;
      sort();
      fill();
    });
  });
  const again = () => { page = 0; fill(); };
  filter.addEventListener("input", again);
  part("previous").addEventListener("click", () => { page -= 1; fill(); });
  part("next").addEventListener("click", () => { page += 1; fill(); });

  return {
    again,
    fill,
    update(given) {
      rows = given;
      texts = rows.map((row) => row.map(show).join("\u0000").toLowerCase());
      sort();
      fill();
    },
  };
}
