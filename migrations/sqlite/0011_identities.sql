-- Whom an OpenID Connect provider vouches for. The issuer and its name for somebody (the subject) say
-- who it is. An e-mail address does not: it may be given to another person.
CREATE TABLE identities (
    issuer     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    account    TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    created_at TEXT NOT NULL,
    PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX identities_by_account ON identities (account, issuer);

-- Browsers that were sent to a provider and have not come back. `secret` is the SHA-256 of the cookie
-- by which a browser is known again.
CREATE TABLE openid_sign_ins (
    secret     TEXT PRIMARY KEY,
    -- The page that is gone on to.
    next       TEXT,
    -- The account that is to be linked; NULL to sign in.
    account    TEXT REFERENCES accounts (id) ON DELETE CASCADE,
    -- The secret of an invitation's link, as `links` has it.
    invitation TEXT,
    expires    INTEGER NOT NULL
) STRICT;

-- People whom a provider has vouched for, and who have not chosen a name yet.
CREATE TABLE openid_sign_ups (
    secret     TEXT PRIMARY KEY,
    issuer     TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    -- A name that the provider knows them by.
    suggestion TEXT,
    next       TEXT,
    invitation TEXT,
    expires    INTEGER NOT NULL
) STRICT;
