-- A repeated reserve: the lease counts from this call, as the worker's own clock does.
-- ?1 jobs, a JSON array, ?2 nonce, ?3 now, ?4 lease's end.
UPDATE jobs_live SET renewed_at = ?3, lease_until = ?4
WHERE job IN (SELECT value FROM json_each(?1)) AND state = 2 AND nonce = ?2
