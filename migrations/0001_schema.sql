-- The schema of both databases. It is written for SQLite; Postgres gets other names of types (server/src/store/schema.rs).
-- Until 0.1.0 is released, changes go in here; after that, a change is a new numbered step.
-- Times are RFC 3339 text, or milliseconds since 1970 where numbers are compared; a truth is 0 or 1.

-- Accounts. Secrets of sessions, tokens, links and device requests are stored as SHA-256 only, so a copy of the
-- database opens no account.

CREATE TABLE accounts (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    password    TEXT, -- argon2id as a PHC string; NULL until the owner has chosen one
    admin       INTEGER NOT NULL,
    created_at  TEXT NOT NULL,
    disabled_at TEXT -- NULL unless an administrator has disabled it
) STRICT;

-- Which versions of the terms of contributing an account has agreed to.
CREATE TABLE agreements (
    account   TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    terms     INTEGER NOT NULL,
    agreed_at TEXT NOT NULL,
    PRIMARY KEY (account, terms)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    secret  TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    expires INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_account ON sessions (account);

-- Links that work once: for an invitation, or to choose a password.
CREATE TABLE links (
    secret  TEXT PRIMARY KEY,
    kind    TEXT NOT NULL,
    account TEXT REFERENCES accounts (id) ON DELETE CASCADE, -- whose password is chosen; NULL for an invitation
    expires INTEGER NOT NULL
) STRICT;

CREATE TABLE tokens (
    id         TEXT PRIMARY KEY,
    secret     TEXT NOT NULL UNIQUE,
    account    TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    scopes     TEXT NOT NULL, -- JSON
    created_at TEXT NOT NULL,
    expires    INTEGER NOT NULL,
    used       INTEGER -- to the minute
) STRICT;
CREATE INDEX tokens_by_account ON tokens (account);

-- Programs that wait until their user has allowed them in the browser.
CREATE TABLE device_requests (
    secret    TEXT PRIMARY KEY,
    user_code TEXT NOT NULL UNIQUE,
    name      TEXT NOT NULL,
    scopes    TEXT NOT NULL, -- JSON
    account   TEXT REFERENCES accounts (id) ON DELETE CASCADE, -- who has allowed it; NULL until then
    expires   INTEGER NOT NULL
) STRICT;

-- What may be tried only so often: one row per subject, such as a name that somebody signs in by.
CREATE TABLE attempts (
    subject TEXT PRIMARY KEY,
    tries   INTEGER NOT NULL,
    since   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX attempts_by_since ON attempts (since);

-- Whom an OpenID Connect provider vouches for. The issuer and the subject say who it is. An e-mail address does not:
-- it may be given to another person.
CREATE TABLE identities (
    issuer     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    account    TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    created_at TEXT NOT NULL,
    PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX identities_by_account ON identities (account, issuer);

-- Browsers that were sent to a provider and have not come back.
CREATE TABLE openid_sign_ins (
    secret     TEXT PRIMARY KEY, -- SHA-256 of the cookie by which the browser is known again
    next       TEXT, -- the page that it goes to afterwards
    account    TEXT REFERENCES accounts (id) ON DELETE CASCADE, -- the account to link; NULL to sign in
    invitation TEXT, -- the secret of an invitation's link
    expires    INTEGER NOT NULL
) STRICT;

-- People whom a provider has vouched for, and who have not chosen a name yet.
CREATE TABLE openid_sign_ups (
    secret     TEXT PRIMARY KEY,
    issuer     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    suggestion TEXT, -- a name that the provider knows them by
    next       TEXT,
    invitation TEXT,
    expires    INTEGER NOT NULL
) STRICT;

-- Hardware, uploads and what they measured.

CREATE TABLE hardware (
    slug        TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    vendor      TEXT NOT NULL,
    facts       TEXT, -- JSON; NULL for hardware that nobody has described
    updated_at  TEXT, -- when the newest upload arrived; NULL while only a model speaks of it
    state       TEXT NOT NULL DEFAULT '', -- a digest that is the same for the same timings
    revision    INTEGER NOT NULL DEFAULT 0, -- counts the changes of its entries
    losses      INTEGER NOT NULL DEFAULT 0, -- counts how often solutions may have ceased to count
    confirmed   INTEGER NOT NULL DEFAULT 0, -- whether an administrator vouches for its facts
    conflicts   INTEGER NOT NULL DEFAULT 0, -- uploads that described it otherwise since
    entry_version INTEGER NOT NULL, -- the oldest version of this program's board entries that its entries may have
    merged_into TEXT REFERENCES hardware (slug) -- the hardware that it turned out to be, and that has its timings
) STRICT;

CREATE TABLE uploads (
    id                  TEXT PRIMARY KEY,
    digest              TEXT NOT NULL UNIQUE,
    bytes               INTEGER NOT NULL,
    format              TEXT NOT NULL,
    received_at         TEXT NOT NULL,
    hardware            TEXT NOT NULL, -- JSON: what it has per hardware, as in the receipt
    new_solutions       INTEGER NOT NULL,
    duplicate_solutions INTEGER NOT NULL,
    account             TEXT REFERENCES accounts (id) ON DELETE SET NULL,
    standing            INTEGER NOT NULL DEFAULT 0, -- 0 counts, 1 fenced, 2 quarantined
    vouched             INTEGER NOT NULL DEFAULT 0, -- whether the operator vouches for it
    reason              TEXT, -- why an administrator has quarantined it
    log_ratio           REAL, -- median distance of its times from those of others; NULL without others
    compared            INTEGER NOT NULL DEFAULT 0, -- how many problems this is the median over
    judged              INTEGER NOT NULL DEFAULT 1, -- 0 while deviations of its solutions have changed since
    licence             TEXT NOT NULL DEFAULT 'MIT OR Apache-2.0',
    licence_basis       TEXT NOT NULL DEFAULT 'before-terms', -- agreed, stated or before-terms
    terms               INTEGER, -- the version of the terms that its sender had agreed to
    library             TEXT, -- HARDWARE@LIBRARY; NULL if it does not say, or has several kinds of hardware
    library_problems    INTEGER
) STRICT;
CREATE INDEX uploads_by_account ON uploads (account);
CREATE INDEX uploads_by_arrival ON uploads (received_at, id);
CREATE INDEX uploads_to_judge ON uploads (id) WHERE judged = 0;
-- Has all that a list of libraries asks for, so that no upload is read.
CREATE INDEX uploads_by_library ON uploads (library, received_at, id, library_problems)
    WHERE standing = 0 AND library IS NOT NULL;

-- Accounts that sent the same bytes after the upload's own. If its account goes, the next one has it.
CREATE TABLE senders (
    upload        TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
    account       TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    licence       TEXT NOT NULL DEFAULT 'MIT OR Apache-2.0',
    licence_basis TEXT NOT NULL DEFAULT 'before-terms',
    terms         INTEGER,
    PRIMARY KEY (upload, account)
) STRICT, WITHOUT ROWID;
CREATE INDEX senders_by_account ON senders (account);

CREATE TABLE problems (
    id        TEXT PRIMARY KEY,
    canonical TEXT NOT NULL UNIQUE,
    op        TEXT NOT NULL,
    b         INTEGER NOT NULL,
    m         INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    k         INTEGER NOT NULL,
    a_dtype   TEXT NOT NULL,
    b_layout  TEXT NOT NULL,
    flops     REAL NOT NULL,
    fields    TEXT NOT NULL -- JSON: the whole problem
) STRICT;

-- Solutions of one collection share their list of configs; each list is stored once.
CREATE TABLE config_lists (
    digest TEXT PRIMARY KEY,
    packed BLOB NOT NULL
) STRICT;

CREATE TABLE solutions (
    id          INTEGER PRIMARY KEY,
    digest      TEXT NOT NULL UNIQUE,
    hardware    TEXT NOT NULL REFERENCES hardware (slug),
    problem     TEXT NOT NULL REFERENCES problems (id),
    method      TEXT NOT NULL,
    contributor TEXT, -- the first of the senders with the best standing; NULL for the one without an account
    vouched     INTEGER NOT NULL DEFAULT 0, -- whether the operator vouches for one of its uploads that is not quarantined
    standing    INTEGER NOT NULL DEFAULT 0, -- the best standing of its uploads
    config_list TEXT NOT NULL REFERENCES config_lists (digest),
    columns     BLOB NOT NULL,
    timings     INTEGER NOT NULL,
    failures    INTEGER NOT NULL,
    best_us     REAL -- NULL if every config failed
) STRICT;
-- Counting the timings of a view reads no columns.
CREATE INDEX solutions_by_view ON solutions (hardware, problem, method, standing, timings, failures);
CREATE INDEX solutions_by_problem ON solutions (problem);

-- Every upload that had a solution, not only the first. A solution stays as long as one of them does.
CREATE TABLE sent (
    solution INTEGER NOT NULL REFERENCES solutions (id) ON DELETE CASCADE,
    upload   TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
    PRIMARY KEY (solution, upload)
) STRICT, WITHOUT ROWID;
CREATE INDEX sent_by_upload ON sent (upload, solution);

-- How far a solution lies from those of other contributors, where enough of them measured the same.
CREATE TABLE deviations (
    solution  INTEGER NOT NULL PRIMARY KEY REFERENCES solutions (id) ON DELETE CASCADE,
    log_ratio REAL NOT NULL
) STRICT;

-- What leaderboards show: one row per hardware, problem and method, computed from the solutions. Boards are filtered
-- and sorted in memory; what queries look for is a column, and the whole entry is JSON.
CREATE TABLE entries (
    hardware              TEXT NOT NULL REFERENCES hardware (slug),
    problem               TEXT NOT NULL REFERENCES problems (id),
    method                TEXT NOT NULL,
    op                    TEXT NOT NULL,
    a_dtype               TEXT NOT NULL,
    scaling               TEXT NOT NULL,
    b_layout              TEXT NOT NULL,
    m                     INTEGER NOT NULL,
    n                     INTEGER NOT NULL,
    k                     INTEGER NOT NULL,
    flops                 REAL NOT NULL,
    best_us               REAL NOT NULL,
    tflops                REAL,
    changed               INTEGER NOT NULL DEFAULT 0, -- the hardware's revision at which it did; 0 before the commit
    entry                 TEXT NOT NULL, -- JSON
    PRIMARY KEY (hardware, problem, method)
) STRICT, WITHOUT ROWID;
CREATE INDEX entries_by_tflops ON entries (hardware, tflops, problem, method);
CREATE INDEX entries_by_change ON entries (hardware, changed);
-- Finds the problems nearest to a shape.
CREATE INDEX entries_by_shape ON entries (hardware, op, a_dtype, scaling, b_layout, method, m, n, k);

-- Views whose entry does not count all of their solutions yet.
CREATE TABLE stale_entries (
    hardware TEXT NOT NULL REFERENCES hardware (slug),
    problem  TEXT NOT NULL REFERENCES problems (id),
    method   TEXT NOT NULL,
    PRIMARY KEY (hardware, problem, method)
) STRICT, WITHOUT ROWID;

-- What administrators did. Names and ids are text: they outlive what they name.
CREATE TABLE moderation (
    position INTEGER PRIMARY KEY,
    at       TEXT NOT NULL,
    who      TEXT NOT NULL,
    what     TEXT NOT NULL,
    why      TEXT NOT NULL
) STRICT;

-- Uploads that an administrator has deleted for good: their bytes are refused.
CREATE TABLE removed_files (
    digest TEXT PRIMARY KEY,
    reason TEXT NOT NULL
) STRICT;

CREATE TABLE reports (
    position INTEGER PRIMARY KEY,
    at       TEXT NOT NULL,
    upload   TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
    account  TEXT REFERENCES accounts (id) ON DELETE SET NULL,
    reason   TEXT NOT NULL
) STRICT;
CREATE INDEX reports_by_upload ON reports (upload);
CREATE INDEX reports_by_account ON reports (account);

-- Jobs of the workers.

CREATE TABLE jobs (
    position    INTEGER PRIMARY KEY, -- the order in which jobs were asked for
    id          TEXT NOT NULL UNIQUE,
    request     TEXT NOT NULL, -- JSON
    state       TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    finished_at TEXT,
    error       TEXT,
    model       TEXT, -- what it made
    snapshot    TEXT,
    attempt     INTEGER NOT NULL DEFAULT 0, -- how often a worker has claimed it; a claim is known by this number
    lease_until INTEGER,
    not_before  INTEGER NOT NULL DEFAULT 0,
    automatic   INTEGER NOT NULL DEFAULT 0, -- whether the server asked for it by itself
    account     TEXT REFERENCES accounts (id) ON DELETE SET NULL -- who asked for it
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state, position);
CREATE INDEX jobs_by_account ON jobs (account, state);

CREATE TABLE job_events (
    job      TEXT NOT NULL REFERENCES jobs (id),
    seq      INTEGER NOT NULL,
    state    TEXT NOT NULL,
    progress REAL NOT NULL,
    message  TEXT NOT NULL,
    PRIMARY KEY (job, seq)
) STRICT, WITHOUT ROWID;

-- Models, their publications and contributions.

CREATE TABLE models (
    position  INTEGER PRIMARY KEY, -- the order in which models arrived
    id        TEXT NOT NULL UNIQUE,
    heuristic TEXT NOT NULL,
    hardware  TEXT NOT NULL REFERENCES hardware (slug),
    summary   TEXT NOT NULL, -- JSON
    state     TEXT NOT NULL DEFAULT 'earlier', -- published, earlier (it was published before) or unpublished
    reason    TEXT NOT NULL DEFAULT '', -- why it is unpublished
    changes   TEXT, -- JSON: the first picks that it would change; NULL unless an administrator must see them
    pinned    INTEGER NOT NULL DEFAULT 0 -- whether only an administrator puts another in its place
) STRICT;
CREATE INDEX models_by_hardware ON models (hardware, position);
CREATE UNIQUE INDEX published_models ON models (hardware, heuristic) WHERE state = 'published';

-- What a model was trained on. The upload may be gone since.
CREATE TABLE model_uploads (
    model  TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    upload TEXT NOT NULL,
    PRIMARY KEY (model, upload)
) STRICT, WITHOUT ROWID;

-- The models of a training's cross-validation in one file, for pages that compare measured times with those of a
-- model that has not seen them.
CREATE TABLE unseen_models (
    model TEXT NOT NULL PRIMARY KEY REFERENCES models (id) ON DELETE CASCADE,
    file  BLOB NOT NULL
) STRICT;

-- What became of the models of a hardware, step by step.
CREATE TABLE publications (
    position  INTEGER PRIMARY KEY,
    at        TEXT NOT NULL,
    hardware  TEXT NOT NULL,
    heuristic TEXT NOT NULL,
    model     TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    action    TEXT NOT NULL,
    who       TEXT NOT NULL,
    why       TEXT NOT NULL
) STRICT;
CREATE INDEX publications_by_hardware ON publications (hardware, heuristic, position);
CREATE INDEX publications_by_model ON publications (model);

-- How much of a hardware had been measured when a training was last asked for.
CREATE TABLE training_marks (
    hardware  TEXT NOT NULL REFERENCES hardware (slug) ON DELETE CASCADE,
    heuristic TEXT NOT NULL,
    problems  INTEGER NOT NULL,
    asked     INTEGER NOT NULL,
    PRIMARY KEY (hardware, heuristic)
) STRICT, WITHOUT ROWID;

-- Models that people contribute. An accepted one has a row among the models, too.
CREATE TABLE contributed_models (
    position     INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    account      TEXT REFERENCES accounts (id) ON DELETE SET NULL,
    hardware     TEXT NOT NULL REFERENCES hardware (slug),
    state        TEXT NOT NULL, -- waiting, evaluated, accepted, declined or withdrawn
    sent_at      TEXT NOT NULL,
    description  TEXT NOT NULL,
    licence      TEXT NOT NULL,
    without_kept INTEGER NOT NULL, -- whether its file says that it has not learnt the kept problems
    summary      TEXT NOT NULL, -- JSON: what is read from its file
    bytes        INTEGER NOT NULL DEFAULT 0,
    figures      TEXT, -- JSON: what the server found; NULL until then
    reason       TEXT NOT NULL DEFAULT '', -- what the administrator said who decided
    job          TEXT NOT NULL -- the job that judges it
) STRICT;
CREATE INDEX contributed_by_account ON contributed_models (account, state);
CREATE INDEX contributed_by_state ON contributed_models (state, position);
CREATE INDEX contributed_by_job ON contributed_models (job);

-- Snapshots: datasets that no longer change. The row stays when the files go, so no version is given twice.

CREATE TABLE snapshots (
    position INTEGER PRIMARY KEY,
    hardware TEXT NOT NULL REFERENCES hardware (slug),
    version  INTEGER NOT NULL, -- counts from 1 for each hardware
    state    TEXT NOT NULL, -- a digest of all that is in it
    bytes    INTEGER NOT NULL, -- of all its files
    summary  TEXT NOT NULL, -- JSON
    removed  TEXT, -- why its files are gone; NULL while they are there
    UNIQUE (hardware, version)
) STRICT;

CREATE TABLE snapshot_files (
    snapshot INTEGER NOT NULL REFERENCES snapshots (position) ON DELETE CASCADE,
    place    INTEGER NOT NULL, -- the order in which they are listed
    name     TEXT NOT NULL,
    format   TEXT NOT NULL,
    bytes    INTEGER NOT NULL,
    sha256   TEXT NOT NULL,
    PRIMARY KEY (snapshot, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX snapshot_files_by_digest ON snapshot_files (sha256);

-- A quarantined upload marks the snapshot, a deleted one takes its files along.
CREATE TABLE snapshot_uploads (
    snapshot INTEGER NOT NULL REFERENCES snapshots (position) ON DELETE CASCADE,
    upload   TEXT NOT NULL,
    PRIMARY KEY (snapshot, upload)
) STRICT, WITHOUT ROWID;
CREATE INDEX snapshot_uploads_by_upload ON snapshot_uploads (upload);

-- Agents, their leases and work, and kernel packs.

CREATE TABLE agents (
    id            TEXT PRIMARY KEY,
    account       TEXT REFERENCES accounts (id) ON DELETE CASCADE, -- NULL if it came without an account
    hardware      TEXT NOT NULL,
    registration  TEXT NOT NULL, -- JSON: what it said of itself
    registered_at TEXT NOT NULL,
    seen          INTEGER NOT NULL,
    refused       INTEGER NOT NULL DEFAULT 0, -- how many of its results were refused
    put_aside     TEXT -- why it gets no work; NULL if it does
) STRICT;
CREATE INDEX agents_by_hardware ON agents (hardware, seen);
CREATE INDEX agents_by_account ON agents (account);

CREATE TABLE leases (
    id       TEXT PRIMARY KEY,
    agent    TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    state    TEXT NOT NULL,
    seconds  REAL NOT NULL, -- how long the work was expected to take
    problems INTEGER NOT NULL,
    taken    INTEGER NOT NULL,
    ended    INTEGER,
    until    INTEGER NOT NULL
) STRICT;
CREATE INDEX leases_by_agent ON leases (agent, taken);
CREATE INDEX leases_to_expire ON leases (until) WHERE state = 'active';
-- An agent works on one lease at a time, even if two requests ask at once.
CREATE UNIQUE INDEX active_leases ON leases (agent) WHERE state = 'active';

-- What is to be measured, is being measured and has been.
CREATE TABLE work (
    position    INTEGER PRIMARY KEY,
    hardware    TEXT NOT NULL,
    problem     TEXT NOT NULL,
    fields      TEXT NOT NULL, -- JSON: the whole problem
    op          TEXT NOT NULL,
    dtype       TEXT NOT NULL,
    b_layout    TEXT NOT NULL,
    aligned     INTEGER NOT NULL,
    bytes       REAL NOT NULL,
    variant     TEXT, -- which kernels compute the problem; empty if none do
    purpose     TEXT NOT NULL,
    rank        INTEGER NOT NULL,
    breadth     TEXT NOT NULL,
    seconds     REAL NOT NULL,
    measured_by TEXT, -- the contributor that must not get it: an account, or `anonymous`
    driver      TEXT, -- the driver that an agent must have
    state       TEXT NOT NULL, -- waiting, leased, done or refused
    wishes      INTEGER NOT NULL DEFAULT 0, -- how many contributors ask for it
    lease       TEXT REFERENCES leases (id) ON DELETE SET NULL,
    upload      TEXT REFERENCES uploads (id) ON DELETE SET NULL,
    refusal     TEXT -- why the hardware could not measure it
) STRICT;
-- No problem is measured twice, but for a confirmation and for another driver.
CREATE UNIQUE INDEX work_once ON work (hardware, problem, (purpose = 'confirm'), (COALESCE(driver, '')));
CREATE INDEX work_in_order ON work (hardware, state, rank, wishes DESC, position);
CREATE INDEX work_by_lease ON work (lease);
CREATE INDEX work_by_upload ON work (upload);

-- Who asks for a problem: an account, or `anonymous`.
CREATE TABLE wishes (
    work        INTEGER NOT NULL REFERENCES work (position) ON DELETE CASCADE,
    contributor TEXT NOT NULL,
    PRIMARY KEY (work, contributor)
) STRICT, WITHOUT ROWID;

-- What one agent cannot measure, though others with its hardware may: it lacks kernels or memory.
CREATE TABLE refusals (
    work   INTEGER NOT NULL REFERENCES work (position) ON DELETE CASCADE,
    agent  TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    reason TEXT NOT NULL,
    PRIMARY KEY (work, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX refusals_by_agent ON refusals (agent);

-- Under which drivers the agents of a hardware have measured.
CREATE TABLE drivers (
    hardware TEXT NOT NULL,
    driver   TEXT NOT NULL,
    PRIMARY KEY (hardware, driver)
) STRICT, WITHOUT ROWID;

CREATE TABLE packs (
    position INTEGER PRIMARY KEY,
    digest   TEXT NOT NULL UNIQUE,
    arch     TEXT NOT NULL,
    summary  TEXT NOT NULL -- JSON
) STRICT;
CREATE INDEX packs_by_arch ON packs (arch, position);

-- One row, written to learn whether the database can be written to.
CREATE TABLE probe (
    id     INTEGER NOT NULL PRIMARY KEY,
    writes INTEGER NOT NULL
) STRICT;
