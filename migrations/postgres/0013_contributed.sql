-- Models that people contribute. An accepted one has a row among the models, too.
CREATE TABLE contributed_models (
    position     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           TEXT COLLATE "C"    NOT NULL UNIQUE,
    -- NULL once the account is gone.
    account      TEXT COLLATE "C" REFERENCES accounts (id) ON DELETE SET NULL,
    hardware     TEXT COLLATE "C"    NOT NULL REFERENCES hardware (slug),
    -- waiting, evaluated, accepted, declined or withdrawn.
    state        TEXT COLLATE "C"    NOT NULL,
    sent_at      TEXT COLLATE "C"    NOT NULL,
    description  TEXT COLLATE "C"    NOT NULL,
    licence      TEXT COLLATE "C"    NOT NULL,
    -- Whether its file says that it has not learnt the kept problems.
    without_kept BIGINT NOT NULL,
    -- JSON: what is read from its file.
    summary      TEXT COLLATE "C"    NOT NULL,
    -- JSON: what the server found; NULL until then.
    figures      TEXT COLLATE "C",
    -- What the administrator said who decided.
    reason       TEXT COLLATE "C"    NOT NULL DEFAULT '',
    -- The job that judges it.
    job          TEXT COLLATE "C"    NOT NULL
);

CREATE INDEX contributed_by_account ON contributed_models (account, state);
CREATE INDEX contributed_by_state ON contributed_models (state, position);
CREATE INDEX contributed_by_job ON contributed_models (job);
