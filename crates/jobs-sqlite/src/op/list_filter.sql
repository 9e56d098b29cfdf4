-- Which of the rows looked at match. ?1 jobs, a JSON array, ?2 name, ?3 id, ?4 text in the newest
-- cause, each null when not asked. Returns the places in the array.
SELECT n.key FROM json_each(?1) n CROSS JOIN jobs_body b ON b.job = n.value
WHERE (?2 IS NULL OR b.name = ?2) AND (?3 IS NULL OR b.id = ?3)
  AND (?4 IS NULL OR instr((SELECT a.cause FROM jobs_attempt a
    WHERE a.job = b.job AND a.cause IS NOT NULL ORDER BY a.fence DESC LIMIT 1), ?4) > 0)
ORDER BY n.key
