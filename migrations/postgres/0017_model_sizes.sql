-- Bytes of the files of contributed models, which count as stored.
ALTER TABLE contributed_models ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;

-- By a pattern, since a row that is no JSON would end the migration.
UPDATE contributed_models SET bytes = CAST(substring(summary FROM '"bytes":([0-9]{1,18})') AS BIGINT)
WHERE summary ~ '"bytes":[0-9]';
