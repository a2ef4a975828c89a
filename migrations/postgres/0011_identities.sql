-- Whom an OpenID Connect provider vouches for. The issuer and its name for somebody (the subject) say
-- who it is. An e-mail address does not: it may be given to another person.
CREATE TABLE identities (
    issuer     TEXT COLLATE "C" NOT NULL,
    subject    TEXT COLLATE "C" NOT NULL,
    account    TEXT COLLATE "C" NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    created_at TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (issuer, subject)
);

CREATE UNIQUE INDEX identities_by_account ON identities (account, issuer);

-- Browsers that were sent to a provider and have not come back. `secret` is the SHA-256 of the cookie
-- by which a browser is known again.
CREATE TABLE openid_sign_ins (
    secret     TEXT COLLATE "C" PRIMARY KEY,
    -- The page that is gone on to.
    next       TEXT COLLATE "C",
    -- The account that is to be linked; NULL to sign in.
    account    TEXT COLLATE "C" REFERENCES accounts (id) ON DELETE CASCADE,
    -- The secret of an invitation's link, as `links` has it.
    invitation TEXT COLLATE "C",
    expires    BIGINT NOT NULL
);

-- People whom a provider has vouched for, and who have not chosen a name yet.
CREATE TABLE openid_sign_ups (
    secret     TEXT COLLATE "C" PRIMARY KEY,
    issuer     TEXT COLLATE "C" NOT NULL,
    subject    TEXT COLLATE "C" NOT NULL,
    -- A name that the provider knows them by.
    suggestion TEXT COLLATE "C",
    next       TEXT COLLATE "C",
    invitation TEXT COLLATE "C",
    expires    BIGINT NOT NULL
);
