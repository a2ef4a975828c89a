-- Datasets that no longer change.
CREATE TABLE snapshots (
    position INTEGER PRIMARY KEY,
    hardware TEXT    NOT NULL REFERENCES hardware (slug),
    -- Counts from 1 for each hardware. The row stays when the files go, so none is given twice.
    version  INTEGER NOT NULL,
    -- Stands for all that is in it.
    state    TEXT    NOT NULL,
    -- Of all its files.
    bytes    INTEGER NOT NULL,
    -- JSON: what is said of it.
    summary  TEXT    NOT NULL,
    -- Why its files are gone; NULL while they are there.
    removed  TEXT,
    UNIQUE (hardware, version)
) STRICT;

CREATE TABLE snapshot_files (
    snapshot INTEGER NOT NULL REFERENCES snapshots (position) ON DELETE CASCADE,
    -- The order in which they are listed.
    place    INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    format   TEXT    NOT NULL,
    bytes    INTEGER NOT NULL,
    sha256   TEXT    NOT NULL,
    PRIMARY KEY (snapshot, place)
) STRICT, WITHOUT ROWID;

-- Two snapshots may have a file in common.
CREATE INDEX snapshot_files_by_digest ON snapshot_files (sha256);

-- What is in it. A quarantined upload marks it, a deleted one takes its files along.
CREATE TABLE snapshot_uploads (
    snapshot INTEGER NOT NULL REFERENCES snapshots (position) ON DELETE CASCADE,
    upload   TEXT    NOT NULL,
    PRIMARY KEY (snapshot, upload)
) STRICT, WITHOUT ROWID;

CREATE INDEX snapshot_uploads_by_upload ON snapshot_uploads (upload);

-- What a finished job made.
ALTER TABLE jobs ADD COLUMN snapshot TEXT;
