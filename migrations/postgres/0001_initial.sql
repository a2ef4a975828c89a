-- Never modify a migration that has been released; add another.
-- Times are RFC 3339 text, leases are milliseconds since 1970, counts are integers.
-- Text sorts by bytes everywhere, so that keyset pages run in one order on every server.

CREATE TABLE hardware (
    slug       TEXT COLLATE "C" PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL,
    vendor     TEXT COLLATE "C" NOT NULL,
    -- JSON; NULL for hardware that nobody has described.
    facts      TEXT COLLATE "C",
    -- When the newest upload arrived; NULL while only a model speaks of it.
    updated_at TEXT COLLATE "C"
);

CREATE TABLE uploads (
    id                  TEXT COLLATE "C" PRIMARY KEY,
    digest              TEXT COLLATE "C" NOT NULL UNIQUE,
    bytes               BIGINT NOT NULL,
    format              TEXT COLLATE "C" NOT NULL,
    received_at         TEXT COLLATE "C" NOT NULL,
    -- JSON: what the upload holds per hardware, as the receipt says it.
    hardware            TEXT COLLATE "C" NOT NULL,
    new_solutions       BIGINT NOT NULL,
    duplicate_solutions BIGINT NOT NULL
);

-- Solutions of one collection share their list of configs; each list is stored once.
CREATE TABLE config_lists (
    digest TEXT COLLATE "C" PRIMARY KEY,
    packed BYTEA NOT NULL
);

CREATE TABLE problems (
    id        TEXT COLLATE "C" PRIMARY KEY,
    canonical TEXT COLLATE "C" NOT NULL UNIQUE,
    op        TEXT COLLATE "C" NOT NULL,
    b         BIGINT NOT NULL,
    m         BIGINT NOT NULL,
    n         BIGINT NOT NULL,
    k         BIGINT NOT NULL,
    a_dtype   TEXT COLLATE "C" NOT NULL,
    b_layout  TEXT COLLATE "C" NOT NULL,
    flops     DOUBLE PRECISION NOT NULL,
    -- JSON: the whole problem.
    fields    TEXT COLLATE "C" NOT NULL
);

CREATE TABLE solutions (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest      TEXT COLLATE "C" NOT NULL UNIQUE,
    hardware    TEXT COLLATE "C" NOT NULL REFERENCES hardware (slug),
    problem     TEXT COLLATE "C" NOT NULL REFERENCES problems (id),
    method      TEXT COLLATE "C" NOT NULL,
    upload      TEXT COLLATE "C" NOT NULL REFERENCES uploads (id),
    config_list TEXT COLLATE "C" NOT NULL REFERENCES config_lists (digest),
    columns     BYTEA NOT NULL,
    timings     BIGINT NOT NULL,
    failures    BIGINT NOT NULL,
    -- NULL if every config failed.
    best_ns     DOUBLE PRECISION
);

CREATE INDEX solutions_by_view ON solutions (hardware, problem, method);
CREATE INDEX solutions_by_problem ON solutions (problem);

-- What leaderboards read: one row per (hardware, problem, method), recomputed
-- from the solutions in the transaction that adds them.
CREATE TABLE entries (
    hardware           TEXT COLLATE "C" NOT NULL REFERENCES hardware (slug),
    problem            TEXT COLLATE "C" NOT NULL REFERENCES problems (id),
    method             TEXT COLLATE "C" NOT NULL,
    -- JSON: the fastest config.
    best               TEXT COLLATE "C" NOT NULL,
    best_ns            DOUBLE PRECISION NOT NULL,
    tflops             DOUBLE PRECISION NOT NULL,
    roofline_share     DOUBLE PRECISION,
    gain_over_defaults DOUBLE PRECISION,
    library_ns         DOUBLE PRECISION,
    configs            BIGINT NOT NULL,
    timings            BIGINT NOT NULL,
    solutions          BIGINT NOT NULL,
    PRIMARY KEY (hardware, problem, method)
);

CREATE INDEX entries_by_tflops ON entries (hardware, tflops);

CREATE TABLE jobs (
    -- The order in which jobs were asked for.
    position    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          TEXT COLLATE "C" NOT NULL UNIQUE,
    -- JSON: what was asked for.
    request     TEXT COLLATE "C" NOT NULL,
    state       TEXT COLLATE "C" NOT NULL,
    created_at  TEXT COLLATE "C" NOT NULL,
    finished_at TEXT COLLATE "C",
    error       TEXT COLLATE "C",
    model       TEXT COLLATE "C",
    -- How often a worker has claimed it; a claim is known by this number.
    attempt     BIGINT NOT NULL DEFAULT 0,
    -- Until when the worker that runs it need not be doubted.
    lease_until BIGINT
);

CREATE INDEX jobs_by_state ON jobs (state, position);

CREATE TABLE job_events (
    job      TEXT COLLATE "C" NOT NULL REFERENCES jobs (id),
    seq      BIGINT NOT NULL,
    state    TEXT COLLATE "C" NOT NULL,
    progress DOUBLE PRECISION NOT NULL,
    message  TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (job, seq)
);

CREATE TABLE models (
    -- The order in which models arrived.
    position  BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id        TEXT COLLATE "C" NOT NULL UNIQUE,
    heuristic TEXT COLLATE "C" NOT NULL,
    hardware  TEXT COLLATE "C" NOT NULL REFERENCES hardware (slug),
    -- JSON: the whole summary.
    summary   TEXT COLLATE "C" NOT NULL
);

CREATE INDEX models_by_hardware ON models (hardware, position);
