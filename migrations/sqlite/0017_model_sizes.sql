-- Bytes of the files of contributed models, which count as stored.
ALTER TABLE contributed_models ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;

UPDATE contributed_models SET bytes = summary ->> '$.bytes'
WHERE CASE WHEN json_valid(summary) THEN json_type(summary, '$.bytes') = 'integer' END;
