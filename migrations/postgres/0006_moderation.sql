-- Why an administrator has quarantined it.
ALTER TABLE uploads ADD COLUMN reason TEXT COLLATE "C";

CREATE INDEX uploads_by_arrival ON uploads (received_at, id);

-- What administrators did. Names and ids are text: they outlive what they name.
CREATE TABLE moderation (
    position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       TEXT COLLATE "C" NOT NULL,
    who      TEXT COLLATE "C" NOT NULL,
    what     TEXT COLLATE "C" NOT NULL,
    why      TEXT COLLATE "C" NOT NULL
);

CREATE TABLE reports (
    position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       TEXT COLLATE "C" NOT NULL,
    upload   TEXT COLLATE "C" NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
    account  TEXT COLLATE "C" REFERENCES accounts (id) ON DELETE SET NULL,
    reason   TEXT COLLATE "C" NOT NULL
);

CREATE INDEX reports_by_upload ON reports (upload);
CREATE INDEX reports_by_account ON reports (account);

-- What a model was trained on. The upload may be gone since.
CREATE TABLE model_uploads (
    model  TEXT COLLATE "C" NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    upload TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (model, upload)
);

-- Whether an administrator vouches for its facts. Those of the catalogue need nobody.
ALTER TABLE hardware ADD COLUMN confirmed BIGINT NOT NULL DEFAULT 0;
-- Uploads that described it otherwise since.
ALTER TABLE hardware ADD COLUMN conflicts BIGINT NOT NULL DEFAULT 0;
