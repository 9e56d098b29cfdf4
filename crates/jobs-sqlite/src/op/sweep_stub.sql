-- Leaves a stub of finished jobs: it answers a repeated push or settlement, and no list.
-- ?1 jobs, a JSON array.
UPDATE jobs_done SET stub = 1 WHERE job IN (SELECT value FROM json_each(?1))
