-- Forgets reserves an hour after their leases' end, and all but the newest 20,000 after two minutes:
-- until its lease's end the repetition of each answers what it took.
-- ?1 an hour ago, ?2 two minutes ago, ?3 most.
DELETE FROM jobs_reserve WHERE nonce IN (
  SELECT r.nonce FROM jobs_reserve r
  WHERE r.until <= max(?1, min(?2, coalesce(
    (SELECT x.until FROM jobs_reserve x ORDER BY x.until DESC LIMIT 1 OFFSET 20000), 0)))
  LIMIT ?3)
