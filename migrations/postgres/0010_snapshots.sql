-- Datasets that no longer change.
CREATE TABLE snapshots (
    position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hardware TEXT COLLATE "C"    NOT NULL REFERENCES hardware (slug),
    -- Counts from 1 for each hardware. The row stays when the files go, so none is given twice.
    version  BIGINT NOT NULL,
    -- Stands for all that is in it.
    state    TEXT COLLATE "C"    NOT NULL,
    -- Of all its files.
    bytes    BIGINT NOT NULL,
    -- JSON: what is said of it.
    summary  TEXT COLLATE "C"    NOT NULL,
    -- Why its files are gone; NULL while they are there.
    removed  TEXT COLLATE "C",
    UNIQUE (hardware, version)
);

CREATE TABLE snapshot_files (
    snapshot BIGINT NOT NULL REFERENCES snapshots (position) ON DELETE CASCADE,
    -- The order in which they are listed.
    place    BIGINT NOT NULL,
    name     TEXT COLLATE "C"    NOT NULL,
    format   TEXT COLLATE "C"    NOT NULL,
    bytes    BIGINT NOT NULL,
    sha256   TEXT COLLATE "C"    NOT NULL,
    PRIMARY KEY (snapshot, place)
);

-- Two snapshots may have a file in common.
CREATE INDEX snapshot_files_by_digest ON snapshot_files (sha256);

-- What is in it. A quarantined upload marks it, a deleted one takes its files along.
CREATE TABLE snapshot_uploads (
    snapshot BIGINT NOT NULL REFERENCES snapshots (position) ON DELETE CASCADE,
    upload   TEXT COLLATE "C"    NOT NULL,
    PRIMARY KEY (snapshot, upload)
);

CREATE INDEX snapshot_uploads_by_upload ON snapshot_uploads (upload);

-- What a finished job made.
ALTER TABLE jobs ADD COLUMN snapshot TEXT COLLATE "C";
