-- The newest bodies of one queue, stubs too. Binds as in list_all.sql, ?4 queue's name.
-- Returns job, id, tenant.
SELECT b.job, b.id, b.tenant FROM jobs_body b
WHERE b.queue = ?4 AND b.id <= ?1 AND (b.id, b.tenant) < (?1, ?2)
ORDER BY b.id DESC, b.tenant DESC LIMIT ?3
