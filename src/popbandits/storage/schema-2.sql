CREATE TABLE IF NOT EXISTS run (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS observation (
    id INTEGER PRIMARY KEY,
    member INTEGER NOT NULL, round INTEGER NOT NULL,
    config TEXT NOT NULL,
    parent_member INTEGER, parent_round INTEGER,
    score_before REAL, score REAL, steps REAL, seconds REAL,
    status TEXT NOT NULL, metrics TEXT NOT NULL, decision TEXT NOT NULL,
    UNIQUE (member, round)
);

CREATE TABLE IF NOT EXISTS decision (
    id INTEGER PRIMARY KEY,
    member INTEGER NOT NULL, round INTEGER NOT NULL,
    parent_member INTEGER, parent_round INTEGER,
    config TEXT NOT NULL,
    given TEXT NOT NULL, seconds REAL, decision TEXT NOT NULL, fallback TEXT, time REAL NOT NULL,
    UNIQUE (member, round)
);

CREATE TABLE IF NOT EXISTS event (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL,
    member INTEGER, round INTEGER, text TEXT NOT NULL, data TEXT NOT NULL
)
