-- Puts lanes whose pause ended back in the ring; one without work leaves it at the next visit.
-- ?1 lanes, a JSON array.
UPDATE jobs_sublane SET ring = 1
WHERE lane IN (SELECT value FROM json_each(?1)) AND ring = 2
