-- The newest bodies of all tenants, stubs too. ?1 before this id, ?2 or this id and a lesser tenant,
-- ?3 most. Returns job, id, tenant.
SELECT b.job, b.id, b.tenant FROM jobs_body b
WHERE b.id <= ?1 AND (b.id, b.tenant) < (?1, ?2)
ORDER BY b.id DESC, b.tenant DESC LIMIT ?3
