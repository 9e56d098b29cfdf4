-- Ready jobs in any order, all when they are few. ?1 most. Returns job, id, tenant.
SELECT f.job, b.id, b.tenant FROM (SELECT r.job FROM jobs_ready r LIMIT ?1) f
LEFT JOIN jobs_body b ON b.job = f.job
