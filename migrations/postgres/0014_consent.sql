-- Which versions of the terms of contributing an account has agreed to, and when.
CREATE TABLE agreements (
    account   TEXT COLLATE "C" NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    terms     BIGINT NOT NULL,
    agreed_at TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (account, terms)
);

-- Under which licence an upload is given, as an SPDX expression. All pages stated this one before.
ALTER TABLE uploads ADD COLUMN licence TEXT COLLATE "C" NOT NULL DEFAULT 'MIT OR Apache-2.0';
-- agreed, stated or before-terms.
ALTER TABLE uploads ADD COLUMN licence_basis TEXT COLLATE "C" NOT NULL DEFAULT 'before-terms';
-- The version of the terms that its sender had agreed to; NULL if it was none.
ALTER TABLE uploads ADD COLUMN terms BIGINT;

-- The same of those who sent the same bytes later.
ALTER TABLE senders ADD COLUMN licence TEXT COLLATE "C" NOT NULL DEFAULT 'MIT OR Apache-2.0';
ALTER TABLE senders ADD COLUMN licence_basis TEXT COLLATE "C" NOT NULL DEFAULT 'before-terms';
ALTER TABLE senders ADD COLUMN terms BIGINT;
