-- Takes jobs. Damaged counts stop short of an overflow, which would fail every reserve. ?1 jobs, a JSON array, ?2 nonce, ?3 now, ?4 lease's end, ?5 worker.
UPDATE jobs_live SET state = 2, attempt = min(attempt, 9223372036854775806) + 1,
  fence = min(fence, 9223372036854775806) + 1, nonce = ?2,
  outcome = NULL, lease_until = ?4, started_at = ?3, renewed_at = ?3, worker = ?5,
  keyed = CASE keyed WHEN 2 THEN 0 ELSE keyed END
WHERE job IN (SELECT value FROM json_each(?1))
