-- Which of the rows looked at match; stubs never do. ?1 jobs, a JSON array, ?2 name, ?3 id, ?4 text
-- in the newest cause, ?5 state, ?6 queue's name, ?7 tenant, each null when not asked.
-- Returns the places in the array.
SELECT n.key FROM json_each(?1) n CROSS JOIN jobs_body b ON b.job = n.value
LEFT JOIN jobs_queue q ON q.queue = b.queue_number
LEFT JOIN jobs_sublane s ON s.sublane = b.sublane
LEFT JOIN jobs_live l ON l.job = b.job
LEFT JOIN jobs_done d ON d.job = b.job
WHERE d.stub IS NOT 1 AND (?5 IS NULL OR coalesce(l.state, d.state, CASE WHEN EXISTS (SELECT 1 FROM jobs_ready r
    WHERE r.sublane = b.sublane AND r.rank = -b.priority AND r.run_at = b.due AND r.id = b.id
    AND r.job = b.job) THEN 1 END) = ?5)
  AND (?2 IS NULL OR s.name = ?2) AND (?3 IS NULL OR b.id = ?3)
  AND (?6 IS NULL OR q.name = ?6) AND (?7 IS NULL OR b.tenant = ?7)
  AND (?4 IS NULL OR instr((SELECT a.cause FROM jobs_attempt a
    WHERE a.job = b.job AND a.cause IS NOT NULL ORDER BY a.fence DESC LIMIT 1), ?4) > 0)
ORDER BY n.key
