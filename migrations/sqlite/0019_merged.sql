-- The hardware that it turned out to be the same as, and that has its timings; NULL if there is none.
ALTER TABLE hardware ADD COLUMN merged_into TEXT REFERENCES hardware (slug);
