-- One job in scope. $1 tenant, $2 id, $3 the only tenant in scope, or null for all.
-- Returns the view, now, and its newest hundred attempts, oldest first, column by column: number,
-- fence, worker, start, end, outcome, cause.
SELECT v.*, jobs.now_ms(), a.*
FROM jobs.views(ARRAY[$2::uuid], ARRAY[$1::text]) v
CROSS JOIN LATERAL (
  SELECT array_agg(x.number ORDER BY x.fence), array_agg(x.fence ORDER BY x.fence),
    array_agg(x.worker ORDER BY x.fence), array_agg(x.started_at ORDER BY x.fence),
    array_agg(x.ended_at ORDER BY x.fence), array_agg(x.outcome ORDER BY x.fence),
    array_agg(x.cause ORDER BY x.fence)
  FROM (SELECT y.* FROM jobs.attempt y WHERE y.id = v.id AND y.tenant = v.tenant
    ORDER BY y.fence DESC LIMIT 100) x) a
WHERE $3::text IS NULL OR v.tenant = $3
