-- Beside which version of a vendor's library an upload was measured, as HARDWARE@LIBRARY, and how many problems it has.
-- NULL if it does not say, or has several kinds of hardware. So far, only the receipt's JSON said it.
ALTER TABLE uploads ADD COLUMN library TEXT;
ALTER TABLE uploads ADD COLUMN library_problems INTEGER;

UPDATE uploads SET
    library = (hardware ->> '$[0].slug') || '@' || (hardware ->> '$[0].library'),
    library_problems = hardware ->> '$[0].problems'
WHERE hardware LIKE '%"library":%' AND CASE WHEN json_valid(hardware) THEN json_array_length(hardware) = 1 END;

-- Has all that is asked for, so that no upload is read.
CREATE INDEX uploads_by_library ON uploads (library, received_at, id, library_problems)
    WHERE standing = 0 AND library IS NOT NULL;
