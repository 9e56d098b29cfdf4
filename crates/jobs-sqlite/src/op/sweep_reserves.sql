-- Forgets reserves after an hour, and all but the newest 20,000 after two minutes.
-- ?1 an hour ago, ?2 two minutes ago, ?3 most.
DELETE FROM jobs_reserve WHERE nonce IN (
  SELECT r.nonce FROM jobs_reserve r
  WHERE r.at <= max(?1, min(?2, coalesce(
    (SELECT x.at FROM jobs_reserve x ORDER BY x.at DESC LIMIT 1 OFFSET 20000), 0)))
  LIMIT ?3)
