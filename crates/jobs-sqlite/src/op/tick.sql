-- The store's now, never less than it ever was, and the highest number of a job.
-- ?1 the system's clock. One row: now, highest job.
-- Rejected: AUTOINCREMENT, which writes a row of sqlite_sequence with every push.
UPDATE jobs_meta SET clock = max(clock, ?1)
RETURNING clock, (SELECT coalesce(max(job), 0) FROM jobs_body)
