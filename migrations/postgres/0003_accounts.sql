-- Secrets (of sessions, tokens, links and device requests) are stored as SHA-256 only: a copy of
-- the database opens no account. `expires` and `since` are milliseconds since 1970.

CREATE TABLE accounts (
    id          TEXT COLLATE "C" PRIMARY KEY,
    name        TEXT COLLATE "C" NOT NULL UNIQUE,
    -- argon2id, as a PHC string; NULL until the owner has chosen one.
    password    TEXT COLLATE "C",
    admin       BIGINT NOT NULL,
    created_at  TEXT COLLATE "C" NOT NULL,
    -- NULL unless an administrator has disabled it.
    disabled_at TEXT COLLATE "C"
);

CREATE TABLE sessions (
    secret  TEXT COLLATE "C" PRIMARY KEY,
    account TEXT COLLATE "C" NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    expires BIGINT NOT NULL
);

CREATE INDEX sessions_by_account ON sessions (account);

-- Links that work once: for an invitation, or to choose a password.
CREATE TABLE links (
    secret  TEXT COLLATE "C" PRIMARY KEY,
    kind    TEXT COLLATE "C" NOT NULL,
    -- Whose password is chosen; NULL for an invitation.
    account TEXT COLLATE "C" REFERENCES accounts (id) ON DELETE CASCADE,
    expires BIGINT NOT NULL
);

CREATE TABLE tokens (
    id         TEXT COLLATE "C" PRIMARY KEY,
    secret     TEXT COLLATE "C" NOT NULL UNIQUE,
    account    TEXT COLLATE "C" NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- What its owner calls it.
    name       TEXT COLLATE "C" NOT NULL,
    -- JSON: a list of scopes.
    scopes     TEXT COLLATE "C" NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    expires    BIGINT NOT NULL,
    -- To the minute.
    used       BIGINT
);

CREATE INDEX tokens_by_account ON tokens (account);

-- Programs that wait until their user has allowed them in the browser.
CREATE TABLE device_requests (
    secret    TEXT COLLATE "C" PRIMARY KEY,
    user_code TEXT COLLATE "C" NOT NULL UNIQUE,
    name      TEXT COLLATE "C" NOT NULL,
    scopes    TEXT COLLATE "C" NOT NULL,
    -- Who has allowed it; NULL until then.
    account   TEXT COLLATE "C" REFERENCES accounts (id) ON DELETE CASCADE,
    expires   BIGINT NOT NULL
);

-- What may be tried only so often: one row per subject, such as a name that somebody signs in by.
CREATE TABLE attempts (
    subject TEXT COLLATE "C" PRIMARY KEY,
    tries   BIGINT NOT NULL,
    since   BIGINT NOT NULL
);

CREATE INDEX attempts_by_since ON attempts (since);

-- Whose upload it is; NULL if it was sent without an account.
ALTER TABLE uploads ADD COLUMN account TEXT COLLATE "C" REFERENCES accounts (id) ON DELETE SET NULL;

CREATE INDEX uploads_by_account ON uploads (account);

-- Deleting an account with its uploads looks for their solutions.
CREATE INDEX solutions_by_upload ON solutions (upload);
