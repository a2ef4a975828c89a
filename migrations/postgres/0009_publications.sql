-- published, earlier (it was published before) or unpublished.
ALTER TABLE models ADD COLUMN state TEXT COLLATE "C" NOT NULL DEFAULT 'earlier';
-- Why it is unpublished.
ALTER TABLE models ADD COLUMN reason TEXT COLLATE "C" NOT NULL DEFAULT '';
-- Whether nobody but an administrator puts another in its place.
ALTER TABLE models ADD COLUMN pinned BIGINT NOT NULL DEFAULT 0;

-- Programs took the newest one until now.
UPDATE models SET state = 'published'
WHERE position IN (SELECT MAX(position) FROM models GROUP BY hardware, heuristic);

CREATE UNIQUE INDEX published_models ON models (hardware, heuristic) WHERE state = 'published';

-- What became of the models of a hardware, step by step.
CREATE TABLE publications (
    position  BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        TEXT COLLATE "C" NOT NULL,
    hardware  TEXT COLLATE "C" NOT NULL,
    heuristic TEXT COLLATE "C" NOT NULL,
    model     TEXT COLLATE "C" NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    action    TEXT COLLATE "C" NOT NULL,
    who       TEXT COLLATE "C" NOT NULL,
    why       TEXT COLLATE "C" NOT NULL
);

INSERT INTO publications (at, hardware, heuristic, model, action, who, why)
SELECT summary::json ->> 'created_at', hardware, heuristic, id, 'publish', 'server', 'there was no history yet'
FROM models ORDER BY position;

CREATE INDEX publications_by_hardware ON publications (hardware, heuristic, position);
CREATE INDEX publications_by_model ON publications (model);

-- How much of a hardware had been measured when a training was last asked for.
CREATE TABLE training_marks (
    hardware  TEXT COLLATE "C"    NOT NULL REFERENCES hardware (slug) ON DELETE CASCADE,
    heuristic TEXT COLLATE "C"    NOT NULL,
    problems  BIGINT NOT NULL,
    -- Milliseconds since 1970.
    asked     BIGINT NOT NULL,
    PRIMARY KEY (hardware, heuristic)
);

-- Whether the server asked for it by itself.
ALTER TABLE jobs ADD COLUMN automatic BIGINT NOT NULL DEFAULT 0;
-- Who asked for it; NULL for the server, for whoever has no account, and once the account is gone.
ALTER TABLE jobs ADD COLUMN account TEXT COLLATE "C" REFERENCES accounts (id) ON DELETE SET NULL;
-- No worker takes it before, in milliseconds since 1970.
ALTER TABLE jobs ADD COLUMN not_before BIGINT NOT NULL DEFAULT 0;

CREATE INDEX jobs_by_account ON jobs (account, state);
