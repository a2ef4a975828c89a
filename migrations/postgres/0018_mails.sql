-- Mails that wait to be sent. A link is drawn only when its mail is sent, so that a copy of the database still
-- opens no account. `asked_at`, `not_before` and `expires` are milliseconds since 1970.
CREATE TABLE mails (
    -- Never given twice: a claim of a mail that is gone is no claim of another.
    position   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- What it says.
    kind       TEXT COLLATE "C" NOT NULL,
    account    TEXT COLLATE "C" NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- Where it goes.
    email      TEXT COLLATE "C" NOT NULL,
    asked_at   BIGINT NOT NULL,
    -- How often a server has claimed it; a claim is known by this number.
    attempt    BIGINT NOT NULL DEFAULT 0,
    -- From when on a server may claim it: now, after a pause, or once the claim of another has ended.
    not_before BIGINT NOT NULL,
    -- When it is given up.
    expires    BIGINT NOT NULL
);

CREATE INDEX mails_by_time ON mails (not_before);
CREATE INDEX mails_by_account ON mails (account);
