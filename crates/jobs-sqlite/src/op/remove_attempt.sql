-- Removes jobs for good. ?1 jobs, a JSON array.
DELETE FROM jobs_attempt WHERE job IN (SELECT value FROM json_each(?1))
