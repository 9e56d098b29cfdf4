-- The newest jobs of all tenants. ?1 before this id, ?2 or this id and a lesser tenant, ?3 most.
-- Returns job, id, tenant.
SELECT b.job, b.id, b.tenant FROM jobs_body b
WHERE b.id <= ?1 AND (b.id, b.tenant) < (?1, ?2)
  AND NOT EXISTS (SELECT 1 FROM jobs_done d WHERE d.job = b.job AND d.stub = 1)
ORDER BY b.id DESC, b.tenant DESC LIMIT ?3
