-- Boards are read by index. The columns that they are filtered and sorted by stand in the entry
-- itself, and each order has an index. An entry without a roofline has no rate: nothing bounds it.

CREATE TABLE board (
    hardware           TEXT    NOT NULL REFERENCES hardware (slug),
    problem            TEXT    NOT NULL REFERENCES problems (id),
    method             TEXT    NOT NULL,
    -- Copies of the problem's columns.
    op                 TEXT    NOT NULL,
    a_dtype            TEXT    NOT NULL,
    b_layout           TEXT    NOT NULL,
    m                  INTEGER NOT NULL,
    n                  INTEGER NOT NULL,
    k                  INTEGER NOT NULL,
    flops              REAL    NOT NULL,
    -- JSON: the fastest config.
    best               TEXT    NOT NULL,
    best_ns            REAL    NOT NULL,
    tflops             REAL,
    roofline_share     REAL,
    gain_over_defaults REAL,
    library_ns         REAL,
    configs            INTEGER NOT NULL,
    timings            INTEGER NOT NULL,
    solutions          INTEGER NOT NULL,
    PRIMARY KEY (hardware, problem, method)
) STRICT, WITHOUT ROWID;

INSERT INTO board
SELECT e.hardware, e.problem, e.method, p.op, p.a_dtype, p.b_layout, p.m, p.n, p.k, p.flops, e.best, e.best_ns,
       CASE WHEN e.roofline_share < 1e300 AND e.tflops < 1e300 THEN e.tflops END,
       CASE WHEN e.roofline_share < 1e300 THEN e.roofline_share END,
       CASE WHEN e.gain_over_defaults < 1e300 THEN e.gain_over_defaults END,
       e.library_ns, e.configs, e.timings, e.solutions
FROM entries e JOIN problems p ON p.id = e.problem;

DROP TABLE entries;
ALTER TABLE board RENAME TO entries;

CREATE INDEX entries_by_tflops ON entries (hardware, tflops, problem, method);
CREATE INDEX entries_by_time ON entries (hardware, best_ns, problem, method);
CREATE INDEX entries_by_roofline ON entries (hardware, roofline_share, problem, method);
CREATE INDEX entries_by_gain ON entries (hardware, gain_over_defaults, problem, method);
CREATE INDEX entries_by_flops ON entries (hardware, flops, problem, method);
-- Counts what a filter leaves.
CREATE INDEX entries_by_shape ON entries (hardware, op, a_dtype, b_layout, method, m, n, k);

-- Views whose entry does not count all of their solutions yet: an upload recomputes only as many as it
-- brings timings, and leaves the others here.
CREATE TABLE stale_entries (
    hardware TEXT NOT NULL REFERENCES hardware (slug),
    problem  TEXT NOT NULL REFERENCES problems (id),
    method   TEXT NOT NULL,
    PRIMARY KEY (hardware, problem, method)
) STRICT, WITHOUT ROWID;

-- A digest that changes with each upload for the hardware: what is made of the same timings has the same.
ALTER TABLE hardware ADD COLUMN state TEXT NOT NULL DEFAULT '';
-- Counts the changes of the hardware's entries.
ALTER TABLE hardware ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
UPDATE hardware SET state = COALESCE(updated_at, '');

-- Counting the timings of a view then reads no columns.
DROP INDEX solutions_by_view;
CREATE INDEX solutions_by_view ON solutions (hardware, problem, method, timings, failures);

-- One row, written to learn whether the database can be written to.
CREATE TABLE probe (
    id     INTEGER PRIMARY KEY,
    writes INTEGER NOT NULL
) STRICT;
