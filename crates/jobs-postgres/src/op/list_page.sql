-- One page in one snapshot. $1 tenant, $2 queue, $3 state, $4 name, $5 id, $6 text in the cause, each
-- null when not asked, $7 jobs of a page, $8 and $9 the id and tenant it goes on after.
-- Returns the view, null but for one row when nothing matched, then now, where it ended, complete.
SELECT v.*, p.now, p.next_id, p.next_tenant, p.complete
FROM jobs.list($1, $2, $3, $4, $5, $6, $7, $8, $9) p
LEFT JOIN LATERAL jobs.views(p.ids, p.tenants) v ON true
