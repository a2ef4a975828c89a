-- Never modify a migration that has been released; add another.
-- Times are RFC 3339 text, leases are milliseconds since 1970, counts are integers.

CREATE TABLE hardware (
    slug       TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    vendor     TEXT NOT NULL,
    -- JSON; NULL for hardware that nobody has described.
    facts      TEXT,
    -- When the newest upload arrived; NULL while only a model speaks of it.
    updated_at TEXT
) STRICT;

CREATE TABLE uploads (
    id                  TEXT PRIMARY KEY,
    digest              TEXT    NOT NULL UNIQUE,
    bytes               INTEGER NOT NULL,
    format              TEXT    NOT NULL,
    received_at         TEXT    NOT NULL,
    -- JSON: what the upload holds per hardware, as the receipt says it.
    hardware            TEXT    NOT NULL,
    new_solutions       INTEGER NOT NULL,
    duplicate_solutions INTEGER NOT NULL
) STRICT;

-- Solutions of one collection share their list of configs; each list is stored once.
CREATE TABLE config_lists (
    digest TEXT PRIMARY KEY,
    packed BLOB NOT NULL
) STRICT;

CREATE TABLE problems (
    id        TEXT PRIMARY KEY,
    canonical TEXT    NOT NULL UNIQUE,
    op        TEXT    NOT NULL,
    b         INTEGER NOT NULL,
    m         INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    k         INTEGER NOT NULL,
    a_dtype   TEXT    NOT NULL,
    b_layout  TEXT    NOT NULL,
    flops     REAL    NOT NULL,
    -- JSON: the whole problem.
    fields    TEXT    NOT NULL
) STRICT;

CREATE TABLE solutions (
    id          INTEGER PRIMARY KEY,
    digest      TEXT    NOT NULL UNIQUE,
    hardware    TEXT    NOT NULL REFERENCES hardware (slug),
    problem     TEXT    NOT NULL REFERENCES problems (id),
    method      TEXT    NOT NULL,
    upload      TEXT    NOT NULL REFERENCES uploads (id),
    config_list TEXT    NOT NULL REFERENCES config_lists (digest),
    columns     BLOB    NOT NULL,
    timings     INTEGER NOT NULL,
    failures    INTEGER NOT NULL,
    -- NULL if every config failed.
    best_ns     REAL
) STRICT;

CREATE INDEX solutions_by_view ON solutions (hardware, problem, method);
CREATE INDEX solutions_by_problem ON solutions (problem);

-- What leaderboards read: one row per (hardware, problem, method), recomputed
-- from the solutions in the transaction that adds them.
CREATE TABLE entries (
    hardware           TEXT    NOT NULL REFERENCES hardware (slug),
    problem            TEXT    NOT NULL REFERENCES problems (id),
    method             TEXT    NOT NULL,
    -- JSON: the fastest config.
    best               TEXT    NOT NULL,
    best_ns            REAL    NOT NULL,
    tflops             REAL    NOT NULL,
    roofline_share     REAL,
    gain_over_defaults REAL,
    library_ns         REAL,
    configs            INTEGER NOT NULL,
    timings            INTEGER NOT NULL,
    solutions          INTEGER NOT NULL,
    PRIMARY KEY (hardware, problem, method)
) STRICT, WITHOUT ROWID;

CREATE INDEX entries_by_tflops ON entries (hardware, tflops);

CREATE TABLE jobs (
    -- The order in which jobs were asked for.
    position    INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    -- JSON: what was asked for.
    request     TEXT    NOT NULL,
    state       TEXT    NOT NULL,
    created_at  TEXT    NOT NULL,
    finished_at TEXT,
    error       TEXT,
    model       TEXT,
    -- How often a worker has claimed it; a claim is known by this number.
    attempt     INTEGER NOT NULL DEFAULT 0,
    -- Until when the worker that runs it need not be doubted.
    lease_until INTEGER
) STRICT;

CREATE INDEX jobs_by_state ON jobs (state, position);

CREATE TABLE job_events (
    job      TEXT    NOT NULL REFERENCES jobs (id),
    seq      INTEGER NOT NULL,
    state    TEXT    NOT NULL,
    progress REAL    NOT NULL,
    message  TEXT    NOT NULL,
    PRIMARY KEY (job, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE models (
    -- The order in which models arrived.
    position  INTEGER PRIMARY KEY,
    id        TEXT NOT NULL UNIQUE,
    heuristic TEXT NOT NULL,
    hardware  TEXT NOT NULL REFERENCES hardware (slug),
    -- JSON: the whole summary.
    summary   TEXT NOT NULL
) STRICT;

CREATE INDEX models_by_hardware ON models (hardware, position);
