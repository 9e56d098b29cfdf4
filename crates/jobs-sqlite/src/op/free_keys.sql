-- Frees the keys of jobs. ?1 jobs, a JSON array.
DELETE FROM jobs_key WHERE (tenant, key) IN (
  SELECT b.tenant, b.key FROM json_each(?1) n CROSS JOIN jobs_body b ON b.job = n.value
  WHERE b.key IS NOT NULL) AND job IN (SELECT value FROM json_each(?1))
