-- The store's now, never less than it ever was, and the highest number of a job: of any table,
-- because a row may be lost of one. Numbers from 2^62 are damage and in nobody's way.
-- ?1 the handle's clock. One row: now, highest job.
-- Rejected: AUTOINCREMENT, which writes a row of sqlite_sequence with every push.
UPDATE jobs_meta SET clock = max(clock, ?1)
RETURNING clock, max(
  (SELECT coalesce(max(job), 0) FROM jobs_body WHERE job < 4611686018427387904),
  (SELECT coalesce(max(job), 0) FROM jobs_live WHERE job < 4611686018427387904),
  (SELECT coalesce(max(job), 0) FROM jobs_done WHERE job < 4611686018427387904))
