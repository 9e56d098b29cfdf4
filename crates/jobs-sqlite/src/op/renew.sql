-- Extends leases of claims known to be held. ?1 jobs, a JSON array, ?2 now, ?3 lease's end.
UPDATE jobs_live SET renewed_at = ?2, lease_until = ?3
WHERE job IN (SELECT value FROM json_each(?1)) AND state = 2
