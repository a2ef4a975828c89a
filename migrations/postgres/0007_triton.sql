-- The best Triton config and the library kernel beside the best of everything, and how they compare.
-- `library_ns` is there already.
ALTER TABLE entries ADD COLUMN triton TEXT COLLATE "C";
ALTER TABLE entries ADD COLUMN triton_ns DOUBLE PRECISION;
ALTER TABLE entries ADD COLUMN triton_tflops DOUBLE PRECISION;
ALTER TABLE entries ADD COLUMN triton_roofline_share DOUBLE PRECISION;
ALTER TABLE entries ADD COLUMN triton_gain DOUBLE PRECISION;
-- Interquartile range of the repeats / time.
ALTER TABLE entries ADD COLUMN triton_spread DOUBLE PRECISION;
-- Other Triton configs that are as fast.
ALTER TABLE entries ADD COLUMN triton_ties BIGINT NOT NULL DEFAULT 0;
ALTER TABLE entries ADD COLUMN library_tflops DOUBLE PRECISION;
ALTER TABLE entries ADD COLUMN library_roofline_share DOUBLE PRECISION;
ALTER TABLE entries ADD COLUMN library_gain DOUBLE PRECISION;
ALTER TABLE entries ADD COLUMN library_spread DOUBLE PRECISION;
-- Library time / Triton time.
ALTER TABLE entries ADD COLUMN triton_over_library DOUBLE PRECISION;

CREATE INDEX entries_by_triton_tflops ON entries (hardware, triton_tflops, problem, method);
CREATE INDEX entries_by_triton_time ON entries (hardware, triton_ns, problem, method);
CREATE INDEX entries_by_triton_roofline ON entries (hardware, triton_roofline_share, problem, method);
CREATE INDEX entries_by_triton_gain ON entries (hardware, triton_gain, problem, method);
CREATE INDEX entries_by_library_tflops ON entries (hardware, library_tflops, problem, method);
CREATE INDEX entries_by_library_time ON entries (hardware, library_ns, problem, method);
CREATE INDEX entries_by_library_roofline ON entries (hardware, library_roofline_share, problem, method);
CREATE INDEX entries_by_library_gain ON entries (hardware, library_gain, problem, method);
CREATE INDEX entries_by_ratio ON entries (hardware, triton_over_library, problem, method);
-- Counts what a filter leaves, and who wins there.
DROP INDEX entries_by_shape;
CREATE INDEX entries_by_shape ON entries
    (hardware, op, a_dtype, b_layout, method, m, n, k, triton_over_library);

-- Every entry is computed anew.
INSERT INTO stale_entries SELECT DISTINCT hardware, problem, method FROM solutions WHERE true
ON CONFLICT DO NOTHING;
