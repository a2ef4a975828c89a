-- Kernel packs that agents and people pull.
CREATE TABLE packs (
    position INTEGER PRIMARY KEY,
    digest   TEXT NOT NULL UNIQUE,
    arch     TEXT NOT NULL,
    -- JSON: what is said of it.
    summary  TEXT NOT NULL
) STRICT;

CREATE INDEX packs_by_arch ON packs (arch, position);

-- What an agent cannot measure, though others with its hardware may: it lacks kernels or memory.
CREATE TABLE refusals (
    work   INTEGER NOT NULL REFERENCES work (position) ON DELETE CASCADE,
    agent  TEXT    NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    reason TEXT    NOT NULL,
    PRIMARY KEY (work, agent)
) STRICT, WITHOUT ROWID;

CREATE INDEX refusals_by_agent ON refusals (agent);

-- Which kernels compute the problem; empty if none do, NULL if it was planned before this was noted.
ALTER TABLE work ADD COLUMN variant TEXT;

-- The plan adds these again, with their variants. Refusals so far may have been for lack of kernels.
DELETE FROM work WHERE state IN ('waiting', 'refused') AND purpose IN ('hole', 'more');
UPDATE work SET state = 'waiting', refusal = NULL WHERE state = 'refused';
