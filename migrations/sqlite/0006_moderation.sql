-- Why an administrator has quarantined it.
ALTER TABLE uploads ADD COLUMN reason TEXT;

CREATE INDEX uploads_by_arrival ON uploads (received_at, id);

-- What administrators did. Names and ids are text: they outlive what they name.
CREATE TABLE moderation (
    position INTEGER PRIMARY KEY,
    at       TEXT NOT NULL,
    who      TEXT NOT NULL,
    what     TEXT NOT NULL,
    why      TEXT NOT NULL
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

-- What a model was trained on. The upload may be gone since.
CREATE TABLE model_uploads (
    model  TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    upload TEXT NOT NULL,
    PRIMARY KEY (model, upload)
) STRICT, WITHOUT ROWID;

-- Whether an administrator vouches for its facts. Those of the catalogue need nobody.
ALTER TABLE hardware ADD COLUMN confirmed INTEGER NOT NULL DEFAULT 0;
-- Uploads that described it otherwise since.
ALTER TABLE hardware ADD COLUMN conflicts INTEGER NOT NULL DEFAULT 0;
