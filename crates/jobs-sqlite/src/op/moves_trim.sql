-- Forgets all but the newest attempts. ?1 jobs, a JSON array, ?2 how many stay.
DELETE FROM jobs_attempt WHERE job IN (SELECT value FROM json_each(?1)) AND fence <= (
  SELECT a.fence FROM jobs_attempt a WHERE a.job = jobs_attempt.job
  ORDER BY a.fence DESC LIMIT 1 OFFSET ?2)
