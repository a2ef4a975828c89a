-- How often solutions may have ceased to count: what the plan takes for measured is read anew then.
ALTER TABLE hardware ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;

-- Leases that have run out are looked for whenever an agent asks for work.
CREATE INDEX leases_to_expire ON leases (until) WHERE state = 'active';

-- Earlier versions left work that is leased or done by nothing that is there any more.
UPDATE work SET state = 'waiting', lease = NULL
WHERE state = 'done' AND upload IS NULL OR state = 'leased' AND lease IS NULL;
