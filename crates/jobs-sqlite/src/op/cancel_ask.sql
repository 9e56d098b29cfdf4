-- Asks the holders of running jobs to stop. ?1 jobs, a JSON array, ?2 by, ?3 now.
UPDATE jobs_live SET cancel = 1, verb = 'cancel', verb_by = ?2, verb_at = ?3
WHERE job IN (SELECT value FROM json_each(?1)) AND state = 2
