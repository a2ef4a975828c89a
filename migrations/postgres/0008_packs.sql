-- Kernel packs that agents and people pull.
CREATE TABLE packs (
    position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest   TEXT COLLATE "C" NOT NULL UNIQUE,
    arch     TEXT COLLATE "C" NOT NULL,
    -- JSON: what is said of it.
    summary  TEXT COLLATE "C" NOT NULL
);

CREATE INDEX packs_by_arch ON packs (arch, position);

-- What an agent cannot measure, though others with its hardware may: it lacks kernels or memory.
CREATE TABLE refusals (
    work   BIGINT NOT NULL REFERENCES work (position) ON DELETE CASCADE,
    agent  TEXT COLLATE "C" NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    reason TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (work, agent)
);

CREATE INDEX refusals_by_agent ON refusals (agent);

-- Which kernels compute the problem; empty if none do, NULL if it was planned before this was noted.
ALTER TABLE work ADD COLUMN variant TEXT COLLATE "C";

-- The plan adds these again, with their variants. Refusals so far may have been for lack of kernels.
DELETE FROM work WHERE state IN ('waiting', 'refused') AND purpose IN ('hole', 'more');
UPDATE work SET state = 'waiting', refusal = NULL WHERE state = 'refused';
