-- The next jobs of one line after a place, in (priority, due, id) order. ?1 sublane, ?2 rank, ?3 due,
-- ?4 id, ?5 job, ?6 most. Returns rank, due, id, job, keyed.
-- Rejected: the heads of all lines in one statement, which reads as many of each as it could take
-- of one; a window function, whose cost grows with the backlog (Hatchet's first queue broke at
-- 25,000 to 40,000 rows that way).
SELECT r.rank, r.run_at, r.id, r.job, r.keyed FROM jobs_ready r
WHERE r.sublane = ?1 AND (r.rank, r.run_at, r.id, r.job) > (?2, ?3, ?4, ?5)
ORDER BY r.rank, r.run_at, r.id, r.job LIMIT ?6
