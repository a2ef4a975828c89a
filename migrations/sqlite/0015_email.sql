-- Where a link for a new password may be sent. It has been confirmed; NULL if there is none. Several accounts
-- may have the same: nobody learns by giving an address that somebody else has it.
ALTER TABLE accounts ADD COLUMN email TEXT;

CREATE INDEX accounts_by_email ON accounts (LOWER(email));

-- The address that a link confirms, or that it was sent to.
ALTER TABLE links ADD COLUMN email TEXT;
