-- published, earlier (it was published before) or unpublished.
ALTER TABLE models ADD COLUMN state TEXT NOT NULL DEFAULT 'earlier';
-- Why it is unpublished.
ALTER TABLE models ADD COLUMN reason TEXT NOT NULL DEFAULT '';
-- Whether nobody but an administrator puts another in its place.
ALTER TABLE models ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;

-- Programs took the newest one until now.
UPDATE models SET state = 'published'
WHERE position IN (SELECT MAX(position) FROM models GROUP BY hardware, heuristic);

CREATE UNIQUE INDEX published_models ON models (hardware, heuristic) WHERE state = 'published';

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

INSERT INTO publications (at, hardware, heuristic, model, action, who, why)
SELECT json_extract(summary, '$.created_at'), hardware, heuristic, id, 'publish', 'server', 'there was no history yet'
FROM models ORDER BY position;

CREATE INDEX publications_by_hardware ON publications (hardware, heuristic, position);
CREATE INDEX publications_by_model ON publications (model);

-- How much of a hardware had been measured when a training was last asked for.
CREATE TABLE training_marks (
    hardware  TEXT    NOT NULL REFERENCES hardware (slug) ON DELETE CASCADE,
    heuristic TEXT    NOT NULL,
    problems  INTEGER NOT NULL,
    -- Milliseconds since 1970.
    asked     INTEGER NOT NULL,
    PRIMARY KEY (hardware, heuristic)
) STRICT, WITHOUT ROWID;

-- Whether the server asked for it by itself.
ALTER TABLE jobs ADD COLUMN automatic INTEGER NOT NULL DEFAULT 0;
-- Who asked for it; NULL for the server, for whoever has no account, and once the account is gone.
ALTER TABLE jobs ADD COLUMN account TEXT REFERENCES accounts (id) ON DELETE SET NULL;
-- No worker takes it before, in milliseconds since 1970.
ALTER TABLE jobs ADD COLUMN not_before INTEGER NOT NULL DEFAULT 0;

CREATE INDEX jobs_by_account ON jobs (account, state);
