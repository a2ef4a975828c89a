-- Secrets (of sessions, tokens, links and device requests) are stored as SHA-256 only: a copy of
-- the database opens no account. `expires` and `since` are milliseconds since 1970.

CREATE TABLE accounts (
    id          TEXT PRIMARY KEY,
    name        TEXT    NOT NULL UNIQUE,
    -- argon2id, as a PHC string; NULL until the owner has chosen one.
    password    TEXT,
    admin       INTEGER NOT NULL,
    created_at  TEXT    NOT NULL,
    -- NULL unless an administrator has disabled it.
    disabled_at TEXT
) STRICT;

CREATE TABLE sessions (
    secret  TEXT PRIMARY KEY,
    account TEXT    NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    expires INTEGER NOT NULL
) STRICT;

CREATE INDEX sessions_by_account ON sessions (account);

-- Links that work once: for an invitation, or to choose a password.
CREATE TABLE links (
    secret  TEXT PRIMARY KEY,
    kind    TEXT    NOT NULL,
    -- Whose password is chosen; NULL for an invitation.
    account TEXT REFERENCES accounts (id) ON DELETE CASCADE,
    expires INTEGER NOT NULL
) STRICT;

CREATE TABLE tokens (
    id         TEXT PRIMARY KEY,
    secret     TEXT    NOT NULL UNIQUE,
    account    TEXT    NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- What its owner calls it.
    name       TEXT    NOT NULL,
    -- JSON: a list of scopes.
    scopes     TEXT    NOT NULL,
    created_at TEXT    NOT NULL,
    expires    INTEGER NOT NULL,
    -- To the minute.
    used       INTEGER
) STRICT;

CREATE INDEX tokens_by_account ON tokens (account);

-- Programs that wait until their user has allowed them in the browser.
CREATE TABLE device_requests (
    secret    TEXT PRIMARY KEY,
    user_code TEXT    NOT NULL UNIQUE,
    name      TEXT    NOT NULL,
    scopes    TEXT    NOT NULL,
    -- Who has allowed it; NULL until then.
    account   TEXT REFERENCES accounts (id) ON DELETE CASCADE,
    expires   INTEGER NOT NULL
) STRICT;

-- What may be tried only so often: one row per subject, such as a name that somebody signs in by.
CREATE TABLE attempts (
    subject TEXT PRIMARY KEY,
    tries   INTEGER NOT NULL,
    since   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX attempts_by_since ON attempts (since);

-- Whose upload it is; NULL if it was sent without an account.
ALTER TABLE uploads ADD COLUMN account TEXT REFERENCES accounts (id) ON DELETE SET NULL;

CREATE INDEX uploads_by_account ON uploads (account);

-- Deleting an account with its uploads looks for their solutions.
CREATE INDEX solutions_by_upload ON solutions (upload);
