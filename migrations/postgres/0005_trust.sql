-- Who sent which solution: every upload that held it, not only the first. A solution is there as long as
-- one of them is.
CREATE TABLE sent (
    solution BIGINT NOT NULL REFERENCES solutions (id) ON DELETE CASCADE,
    upload   TEXT COLLATE "C"    NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
    PRIMARY KEY (solution, upload)
);

INSERT INTO sent SELECT id, upload FROM solutions;
CREATE INDEX sent_by_upload ON sent (upload, solution);

-- Accounts that sent the same bytes after the upload's own. If its account goes, the next one has it.
CREATE TABLE senders (
    upload  TEXT COLLATE "C" NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
    account TEXT COLLATE "C" NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    PRIMARY KEY (upload, account)
);

CREATE INDEX senders_by_account ON senders (account);

-- 0 counts, 1 fenced, 2 quarantined.
ALTER TABLE uploads ADD COLUMN standing BIGINT NOT NULL DEFAULT 0;
-- The median over its problems of how far its times lie from those of the others; NULL if nobody else
-- measured them.
ALTER TABLE uploads ADD COLUMN log_ratio DOUBLE PRECISION;
-- The problems that this is the median over.
ALTER TABLE uploads ADD COLUMN compared BIGINT NOT NULL DEFAULT 0;
-- 0 while deviations of its solutions have changed since.
ALTER TABLE uploads ADD COLUMN judged BIGINT NOT NULL DEFAULT 1;

CREATE INDEX uploads_to_judge ON uploads (id) WHERE judged = 0;

-- Of the senders with the best standing the first; NULL is the one contributor without an account.
ALTER TABLE solutions ADD COLUMN contributor TEXT COLLATE "C";
-- The best standing of its uploads.
ALTER TABLE solutions ADD COLUMN standing BIGINT NOT NULL DEFAULT 0;

UPDATE solutions SET contributor = (SELECT account FROM uploads WHERE uploads.id = solutions.upload)
WHERE upload IN (SELECT id FROM uploads WHERE account IS NOT NULL);

DROP INDEX solutions_by_upload;
ALTER TABLE solutions DROP COLUMN upload;
DROP INDEX solutions_by_view;
CREATE INDEX solutions_by_view ON solutions (hardware, problem, method, standing, timings, failures);

-- How far a solution lies from those of other contributors, where enough of them measured the same.
CREATE TABLE deviations (
    solution  BIGINT PRIMARY KEY REFERENCES solutions (id) ON DELETE CASCADE,
    log_ratio DOUBLE PRECISION NOT NULL
);

-- Contributors of all solutions of the view, and of the best config.
ALTER TABLE entries ADD COLUMN contributors BIGINT NOT NULL DEFAULT 1;
ALTER TABLE entries ADD COLUMN best_contributors BIGINT NOT NULL DEFAULT 1;

-- Each contributor counts once from now on.
INSERT INTO stale_entries SELECT DISTINCT hardware, problem, method FROM solutions WHERE true
ON CONFLICT DO NOTHING;
