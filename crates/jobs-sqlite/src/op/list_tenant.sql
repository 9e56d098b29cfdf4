-- The newest jobs of one tenant. Binds as in list_all.sql, ?4 tenant. Returns job, id, tenant.
SELECT b.job, b.id, b.tenant FROM jobs_body b
WHERE b.tenant = ?4 AND b.id <= ?1 AND (b.id, b.tenant) < (?1, ?2)
  AND NOT EXISTS (SELECT 1 FROM jobs_done d WHERE d.job = b.job AND d.stub = 1)
ORDER BY b.id DESC LIMIT ?3
