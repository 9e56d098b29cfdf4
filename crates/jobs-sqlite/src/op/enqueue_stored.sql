-- What is stored already under these ids and keys. ?1 [[tenant, id in hex, key or null], …].
-- Returns index, the stored job's number and state, the key holder's id and state.
SELECT n.key, b.job, coalesce(l.state, d.state, CASE WHEN r.job IS NOT NULL THEN 1 END),
  h.id, coalesce(hl.state, CASE WHEN EXISTS (SELECT 1 FROM jobs_ready x
    WHERE x.sublane = h.sublane AND x.rank = -h.priority AND x.run_at = h.due AND x.id = h.id
    AND x.job = h.job) THEN 1 END)
FROM json_each(?1) n
LEFT JOIN jobs_body b ON b.tenant = n.value ->> 0 AND b.id = unhex(n.value ->> 1)
LEFT JOIN jobs_live l ON l.job = b.job
LEFT JOIN jobs_done d ON d.job = b.job
LEFT JOIN jobs_ready r ON r.sublane = b.sublane AND r.rank = -b.priority AND r.run_at = b.due
  AND r.id = b.id AND r.job = b.job
LEFT JOIN jobs_key k ON k.tenant = n.value ->> 0 AND k.key = n.value ->> 2
LEFT JOIN jobs_body h ON h.job = k.job
LEFT JOIN jobs_live hl ON hl.job = k.job
