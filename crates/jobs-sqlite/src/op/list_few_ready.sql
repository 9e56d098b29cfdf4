-- Ready jobs in any order, all when they are few. ?1 most. Returns job, id, tenant.
SELECT f.job, b.id, b.tenant
FROM (SELECT l.job FROM jobs_live l INDEXED BY jobs_ready WHERE l.state = 1 LIMIT ?1) f
LEFT JOIN jobs_body b ON b.job = f.job
