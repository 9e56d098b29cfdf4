-- Takes the key of a retried job again; a row in the way is of a job that is gone. ?1 job.
INSERT INTO jobs_key (tenant, key, job)
SELECT b.tenant, b.key, b.job FROM jobs_body b WHERE b.job = ?1 AND b.key_scope = 1
ON CONFLICT (tenant, key) DO UPDATE SET job = excluded.job
