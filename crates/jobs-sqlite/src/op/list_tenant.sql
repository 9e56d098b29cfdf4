-- The newest bodies of one tenant, stubs too. Binds as in list_all.sql, ?4 tenant.
-- Returns job, id, tenant.
SELECT b.job, b.id, b.tenant FROM jobs_body b
WHERE b.tenant = ?4 AND b.id <= ?1 AND (b.id, b.tenant) < (?1, ?2)
ORDER BY b.id DESC LIMIT ?3
