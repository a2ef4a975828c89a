-- Models that people contribute. An accepted one has a row among the models, too.
CREATE TABLE contributed_models (
    position     INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    -- NULL once the account is gone.
    account      TEXT REFERENCES accounts (id) ON DELETE SET NULL,
    hardware     TEXT    NOT NULL REFERENCES hardware (slug),
    -- waiting, evaluated, accepted, declined or withdrawn.
    state        TEXT    NOT NULL,
    sent_at      TEXT    NOT NULL,
    description  TEXT    NOT NULL,
    licence      TEXT    NOT NULL,
    -- Whether its file says that it has not learnt the kept problems.
    without_kept INTEGER NOT NULL,
    -- JSON: what is read from its file.
    summary      TEXT    NOT NULL,
    -- JSON: what the server found; NULL until then.
    figures      TEXT,
    -- What the administrator said who decided.
    reason       TEXT    NOT NULL DEFAULT '',
    -- The job that judges it.
    job          TEXT    NOT NULL
) STRICT;

CREATE INDEX contributed_by_account ON contributed_models (account, state);
CREATE INDEX contributed_by_state ON contributed_models (state, position);
CREATE INDEX contributed_by_job ON contributed_models (job);
