-- Beside which version of a vendor's library an upload was measured, as HARDWARE@LIBRARY, and how many problems it has.
-- NULL if it does not say, or has several kinds of hardware. So far, only the receipt's JSON said it.
ALTER TABLE uploads ADD COLUMN library TEXT COLLATE "C";
ALTER TABLE uploads ADD COLUMN library_problems BIGINT;

-- By patterns, since a row that is no JSON would end the migration. Quotes within texts are escaped, so none is taken
-- for a key.
UPDATE uploads SET
    library = substring(hardware FROM '"slug":"([^"]+)"') || '@' || substring(hardware FROM '"library":"([^"]+)"'),
    library_problems = CAST(substring(hardware FROM '"problems":([0-9]{1,18})') AS BIGINT)
WHERE hardware LIKE '%"library":"%' AND hardware NOT LIKE '%"slug":%"slug":%';

-- Has all that is asked for, so that no upload is read.
CREATE INDEX uploads_by_library ON uploads (library, received_at, id, library_problems)
    WHERE standing = 0 AND library IS NOT NULL;
