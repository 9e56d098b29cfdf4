-- Records who did it. ?1 jobs, a JSON array, ?2 verb, ?3 by, ?4 now.
UPDATE jobs_live SET verb = ?2, verb_by = ?3, verb_at = ?4
WHERE job IN (SELECT value FROM json_each(?1))
