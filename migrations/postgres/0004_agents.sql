-- Agents measure what the server asks for. `seen`, `until` and their like are milliseconds since 1970.

CREATE TABLE agents (
    id            TEXT COLLATE "C" PRIMARY KEY,
    -- Whose it is; NULL if it came without an account.
    account       TEXT COLLATE "C" REFERENCES accounts (id) ON DELETE CASCADE,
    hardware      TEXT COLLATE "C" NOT NULL,
    -- JSON: what it said of itself.
    registration  TEXT COLLATE "C" NOT NULL,
    registered_at TEXT COLLATE "C" NOT NULL,
    seen          BIGINT NOT NULL,
    -- How many of its results were refused.
    refused       BIGINT NOT NULL DEFAULT 0,
    -- Why it gets no work; NULL if it does.
    put_aside     TEXT COLLATE "C"
);

CREATE INDEX agents_by_hardware ON agents (hardware, seen);
CREATE INDEX agents_by_account ON agents (account);

CREATE TABLE leases (
    id       TEXT COLLATE "C" PRIMARY KEY,
    agent    TEXT COLLATE "C" NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    state    TEXT COLLATE "C" NOT NULL,
    -- How long the work was expected to take.
    seconds  DOUBLE PRECISION NOT NULL,
    problems BIGINT NOT NULL,
    taken    BIGINT NOT NULL,
    ended    BIGINT,
    -- Until when the agent need not be doubted.
    until    BIGINT NOT NULL
);

CREATE INDEX leases_by_agent ON leases (agent, taken);
-- An agent works on one lease at a time, whoever asks at once.
CREATE UNIQUE INDEX active_leases ON leases (agent) WHERE state = 'active';

-- What is to be measured, is being measured and has been, one row per problem and hardware.
CREATE TABLE work (
    position    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hardware    TEXT COLLATE "C" NOT NULL,
    problem     TEXT COLLATE "C" NOT NULL,
    -- JSON: the whole problem.
    fields      TEXT COLLATE "C" NOT NULL,
    op          TEXT COLLATE "C" NOT NULL,
    dtype       TEXT COLLATE "C" NOT NULL,
    b_layout    TEXT COLLATE "C" NOT NULL,
    aligned     BIGINT NOT NULL,
    bytes       DOUBLE PRECISION NOT NULL,
    purpose     TEXT COLLATE "C" NOT NULL,
    rank        BIGINT NOT NULL,
    breadth     TEXT COLLATE "C" NOT NULL,
    seconds     DOUBLE PRECISION NOT NULL,
    -- Of a confirmation, who has measured the problem: an account or an agent without one.
    measured_by TEXT COLLATE "C",
    -- waiting, leased, done or refused
    state       TEXT COLLATE "C" NOT NULL,
    lease       TEXT COLLATE "C" REFERENCES leases (id) ON DELETE SET NULL,
    upload      TEXT COLLATE "C" REFERENCES uploads (id) ON DELETE SET NULL,
    -- Why a device could not measure it.
    refusal     TEXT COLLATE "C"
);

-- No problem is measured twice, but for a confirmation.
CREATE UNIQUE INDEX work_once ON work (hardware, problem, (purpose = 'confirm'));
CREATE INDEX work_in_order ON work (hardware, state, rank, position);
CREATE INDEX work_by_lease ON work (lease);
CREATE INDEX work_by_upload ON work (upload);
