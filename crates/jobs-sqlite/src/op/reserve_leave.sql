-- Takes the first jobs of one line out of it, which are all up to a place. Binds as in
-- reserve_heads.sql, without the last.
DELETE FROM jobs_ready
WHERE sublane = ?1 AND (rank, run_at, id, job) <= (?2, ?3, ?4, ?5)
