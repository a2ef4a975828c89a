-- Boards are read by index. The columns that they are filtered and sorted by stand in the entry
-- itself, and each order has an index. An entry without a roofline has no rate: nothing bounds it.

ALTER TABLE entries
    ADD COLUMN op       TEXT COLLATE "C",
    ADD COLUMN a_dtype  TEXT COLLATE "C",
    ADD COLUMN b_layout TEXT COLLATE "C",
    ADD COLUMN m        BIGINT,
    ADD COLUMN n        BIGINT,
    ADD COLUMN k        BIGINT,
    ADD COLUMN flops    DOUBLE PRECISION,
    ALTER COLUMN tflops DROP NOT NULL;

UPDATE entries e
SET op = p.op, a_dtype = p.a_dtype, b_layout = p.b_layout, m = p.m, n = p.n, k = p.k, flops = p.flops,
    tflops = CASE WHEN e.roofline_share < 1e300 AND e.tflops < 1e300 THEN e.tflops END,
    roofline_share = CASE WHEN e.roofline_share < 1e300 THEN e.roofline_share END,
    gain_over_defaults = CASE WHEN e.gain_over_defaults < 1e300 THEN e.gain_over_defaults END
FROM problems p
WHERE p.id = e.problem;

ALTER TABLE entries
    ALTER COLUMN op SET NOT NULL,
    ALTER COLUMN a_dtype SET NOT NULL,
    ALTER COLUMN b_layout SET NOT NULL,
    ALTER COLUMN m SET NOT NULL,
    ALTER COLUMN n SET NOT NULL,
    ALTER COLUMN k SET NOT NULL,
    ALTER COLUMN flops SET NOT NULL;

DROP INDEX entries_by_tflops;
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
    hardware TEXT COLLATE "C" NOT NULL REFERENCES hardware (slug),
    problem  TEXT COLLATE "C" NOT NULL REFERENCES problems (id),
    method   TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (hardware, problem, method)
);

-- A digest that changes with each upload for the hardware: what is made of the same timings has the same.
ALTER TABLE hardware ADD COLUMN state TEXT COLLATE "C" NOT NULL DEFAULT '';
-- Counts the changes of the hardware's entries.
ALTER TABLE hardware ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
UPDATE hardware SET state = COALESCE(updated_at, '');

-- Counting the timings of a view then reads no columns.
DROP INDEX solutions_by_view;
CREATE INDEX solutions_by_view ON solutions (hardware, problem, method, timings, failures);

-- One row, written to learn whether the database can be written to.
CREATE TABLE probe (
    id     BIGINT PRIMARY KEY,
    writes BIGINT NOT NULL
);
