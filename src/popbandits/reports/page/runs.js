// The list of runs: reloaded every second while the page is visible.
const told = document.getElementById("told");
const runs = fillTable("runs", "run", {
  first: () => document.createElement("a"),
  update(link, row) {
    link.textContent = row[0];
    link.href = `run?${new URLSearchParams({ run: row[0] })}`;
  },
  mark: (line, row) => { line.dataset.state = row[1]; },
});

function ago(seconds) {
  if (seconds === null) return null;
  for (const [unit, length, next] of [["s", 1, 100], ["min", 60, 6000], ["h", 3600, 172800]]) {
    if (seconds < next) return `${Math.round(Math.max(0, seconds) / length)} ${unit} ago`;
  }
  return `${Math.round(seconds / 86400)} d ago`;
}

async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch("api/runs");
      if (!answer.ok) throw new Error(await answer.text());
      const { rows: found, now } = await answer.json();
      const rows = found.map((row) => [...row.slice(0, 7), ago(row[7] && now - row[7]), ago(row[8] && now - row[8])]);
      runs.update(rows);
      const running = rows.filter((row) => row[1] === "running").length;
      say(rows.length ? `${rows.length} ${rows.length === 1 ? "run" : "runs"}, ${running} running` :
        "No runs here yet. They appear when they start.");
      document.body.dataset.ready = "true";
    } catch (error) {
      say(`Not connected: ${error.message}. Trying again.`);
    }
  }
  setTimeout(look, 1000);
}

function say(text) {
  if (told.textContent !== text) told.textContent = text;
}

look();
