-- Who holds the key that a job would take again. ?1 job. Returns id and state.
SELECT h.id, coalesce(l.state, CASE WHEN EXISTS (SELECT 1 FROM jobs_ready r
    WHERE r.sublane = h.sublane AND r.rank = -h.priority AND r.run_at = h.due AND r.id = h.id
    AND r.job = h.job) THEN 1 END) AS holds FROM jobs_body b
CROSS JOIN jobs_key k ON k.tenant = b.tenant AND k.key = b.key
CROSS JOIN jobs_body h ON h.job = k.job
LEFT JOIN jobs_live l ON l.job = k.job
WHERE b.job = ?1 AND b.key_scope = 1 AND k.job <> b.job AND holds IS NOT NULL
