-- Agents measure what the server asks for. `seen`, `until` and their like are milliseconds since 1970.

CREATE TABLE agents (
    id            TEXT PRIMARY KEY,
    -- Whose it is; NULL if it came without an account.
    account       TEXT REFERENCES accounts (id) ON DELETE CASCADE,
    hardware      TEXT    NOT NULL,
    -- JSON: what it said of itself.
    registration  TEXT    NOT NULL,
    registered_at TEXT    NOT NULL,
    seen          INTEGER NOT NULL,
    -- How many of its results were refused.
    refused       INTEGER NOT NULL DEFAULT 0,
    -- Why it gets no work; NULL if it does.
    put_aside     TEXT
) STRICT;

CREATE INDEX agents_by_hardware ON agents (hardware, seen);
CREATE INDEX agents_by_account ON agents (account);

CREATE TABLE leases (
    id       TEXT PRIMARY KEY,
    agent    TEXT    NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    state    TEXT    NOT NULL,
    -- How long the work was expected to take.
    seconds  REAL    NOT NULL,
    problems INTEGER NOT NULL,
    taken    INTEGER NOT NULL,
    ended    INTEGER,
    -- Until when the agent need not be doubted.
    until    INTEGER NOT NULL
) STRICT;

CREATE INDEX leases_by_agent ON leases (agent, taken);
-- An agent works on one lease at a time, whoever asks at once.
CREATE UNIQUE INDEX active_leases ON leases (agent) WHERE state = 'active';

-- What is to be measured, is being measured and has been, one row per problem and hardware.
CREATE TABLE work (
    position    INTEGER PRIMARY KEY,
    hardware    TEXT    NOT NULL,
    problem     TEXT    NOT NULL,
    -- JSON: the whole problem.
    fields      TEXT    NOT NULL,
    op          TEXT    NOT NULL,
    dtype       TEXT    NOT NULL,
    b_layout    TEXT    NOT NULL,
    aligned     INTEGER NOT NULL,
    bytes       REAL    NOT NULL,
    purpose     TEXT    NOT NULL,
    rank        INTEGER NOT NULL,
    breadth     TEXT    NOT NULL,
    seconds     REAL    NOT NULL,
    -- Of a confirmation, who has measured the problem: an account or an agent without one.
    measured_by TEXT,
    -- waiting, leased, done or refused
    state       TEXT    NOT NULL,
    lease       TEXT REFERENCES leases (id) ON DELETE SET NULL,
    upload      TEXT REFERENCES uploads (id) ON DELETE SET NULL,
    -- Why a device could not measure it.
    refusal     TEXT
) STRICT;

-- No problem is measured twice, but for a confirmation.
CREATE UNIQUE INDEX work_once ON work (hardware, problem, (purpose = 'confirm'));
CREATE INDEX work_in_order ON work (hardware, state, rank, position);
CREATE INDEX work_by_lease ON work (lease);
CREATE INDEX work_by_upload ON work (upload);
