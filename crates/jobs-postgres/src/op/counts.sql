-- Counts of lanes that have live jobs or settings, those where a job waits first, and what ended minute
-- by minute (`part` 1). Lanes are sought from the jobs, a step each line that has some: idle ones cost
-- nothing. Stable, so that all is of one snapshot.
CREATE FUNCTION jobs.counts(p_tenant text, p_queue text, p_most int4, p_minutes int4)
RETURNS TABLE (
  part int2, queue text, tenant text, scheduled int8, waiting int8, running int8, parked int8, oldest int8,
  weight int4, paused_until int8, changed text, changed_by text, changed_at int8, queue_changed text,
  queue_changed_by text, queue_changed_at int8, at int8, finished int8, failed int8, now int8
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := jobs.now_ms();
  c_counted CONSTANT int4 := 10001;
  c_steps CONSTANT int4 := 20000;
BEGIN
  RETURN QUERY
  WITH RECURSIVE
  lines AS (
    (SELECT v.queue, v.name, v.suspect, v.tenant, v.rank, v.run_at FROM jobs.live v
      WHERE v.state = 1 AND (p_queue IS NULL OR v.queue = p_queue)
      ORDER BY v.queue, v.name, v.suspect, v.tenant, v.rank, v.run_at LIMIT 1)
    UNION ALL
    SELECT x.* FROM lines t CROSS JOIN LATERAL (
      SELECT v.queue, v.name, v.suspect, v.tenant, v.rank, v.run_at FROM jobs.live v
      WHERE v.state = 1 AND (p_queue IS NULL OR v.queue = p_queue)
        AND (v.queue, v.name, v.suspect, v.tenant, v.rank) > (t.queue, t.name, t.suspect, t.tenant, t.rank)
      ORDER BY v.queue, v.name, v.suspect, v.tenant, v.rank, v.run_at LIMIT 1) x
  ),
  ready AS MATERIALIZED (
    SELECT t.queue, t.name, t.suspect, t.tenant, min(t.run_at) AS run_at
    FROM (SELECT * FROM lines LIMIT c_steps) t WHERE p_tenant IS NULL OR t.tenant = p_tenant
    GROUP BY t.queue, t.name, t.suspect, t.tenant
  ),
  shelved AS (
    (SELECT v.tenant, v.queue FROM jobs.live v WHERE v.state = 0 AND (p_tenant IS NULL OR v.tenant = p_tenant)
      ORDER BY v.tenant, v.queue LIMIT 1)
    UNION ALL
    SELECT x.* FROM shelved t CROSS JOIN LATERAL (
      SELECT v.tenant, v.queue FROM jobs.live v
      WHERE v.state = 0 AND (p_tenant IS NULL OR v.tenant = p_tenant)
        AND (v.tenant, v.queue) > (t.tenant, t.queue)
      ORDER BY v.tenant, v.queue LIMIT 1) x
  ),
  stopped AS (
    (SELECT v.tenant, v.queue FROM jobs.live v WHERE v.state = 3 AND (p_tenant IS NULL OR v.tenant = p_tenant)
      ORDER BY v.tenant, v.queue LIMIT 1)
    UNION ALL
    SELECT x.* FROM stopped t CROSS JOIN LATERAL (
      SELECT v.tenant, v.queue FROM jobs.live v
      WHERE v.state = 3 AND (p_tenant IS NULL OR v.tenant = p_tenant)
        AND (v.tenant, v.queue) > (t.tenant, t.queue)
      ORDER BY v.tenant, v.queue LIMIT 1) x
  ),
  -- Jobs that came due and nobody promoted yet, queue by queue and name by name.
  names AS (
    (SELECT v.queue, v.name FROM jobs.live v WHERE v.state = 0 ORDER BY v.queue, v.name LIMIT 1)
    UNION ALL
    SELECT x.* FROM names t CROSS JOIN LATERAL (
      SELECT v.queue, v.name FROM jobs.live v
      WHERE v.state = 0 AND (v.queue, v.name) > (t.queue, t.name) ORDER BY v.queue, v.name LIMIT 1) x
  ),
  due AS MATERIALIZED (
    SELECT x.queue, x.tenant, count(*) AS jobs, min(x.run_at) AS run_at
    FROM (SELECT * FROM names LIMIT c_steps) t CROSS JOIN LATERAL (
      SELECT v.queue, v.tenant, v.run_at FROM jobs.live v
      WHERE v.state = 0 AND v.queue = t.queue AND v.name = t.name AND v.run_at <= v_now
      ORDER BY v.run_at LIMIT 10 * c_counted) x
    WHERE (p_queue IS NULL OR x.queue = p_queue) AND (p_tenant IS NULL OR x.tenant = p_tenant)
    GROUP BY x.queue, x.tenant
  ),
  -- As few as workers have slots.
  held AS MATERIALIZED (
    SELECT v.queue, v.tenant, count(*) FILTER (WHERE v.lease_until > v_now) AS running,
      count(*) FILTER (WHERE v.lease_until IS NULL OR v.lease_until <= v_now) AS expired,
      min(v.run_at) FILTER (WHERE v.lease_until IS NULL OR v.lease_until <= v_now) AS run_at
    FROM jobs.live v
    WHERE v.state = 2 AND (p_queue IS NULL OR v.queue = p_queue)
      AND (p_tenant IS NULL OR v.tenant = p_tenant)
    GROUP BY v.queue, v.tenant
  ),
  found AS (
    SELECT r.queue, r.tenant, false AS idle FROM ready r
    UNION ALL SELECT d.queue, d.tenant, false FROM due d
    UNION ALL SELECT h.queue, h.tenant, h.expired = 0 FROM held h
    UNION ALL SELECT s.queue, s.tenant, true FROM (SELECT * FROM shelved LIMIT c_steps) s
    UNION ALL SELECT s.queue, s.tenant, true FROM (SELECT * FROM stopped LIMIT c_steps) s
    UNION ALL SELECT a.queue, a.tenant, true FROM jobs.lane a WHERE p_tenant IS NULL OR a.tenant = p_tenant
  ),
  chosen AS MATERIALIZED (
    SELECT f.queue, f.tenant FROM found f WHERE p_queue IS NULL OR f.queue = p_queue
    GROUP BY f.queue, f.tenant
    ORDER BY bool_and(f.idle), f.queue, f.tenant LIMIT p_most
  ),
  counted AS (
    SELECT c.queue, c.tenant, r.jobs AS ready, least(r.run_at, d.run_at, h.run_at) AS oldest,
      coalesce(d.jobs, 0) AS due, coalesce(h.running, 0) AS running, coalesce(h.expired, 0) AS expired,
      (SELECT count(*) FROM (SELECT 1 FROM jobs.live v WHERE v.state = 0 AND v.tenant = c.tenant
        AND v.queue = c.queue LIMIT c_counted) x) AS scheduled,
      (SELECT count(*) FROM (SELECT 1 FROM jobs.live v WHERE v.state = 3 AND v.tenant = c.tenant
        AND v.queue = c.queue LIMIT c_counted) x) AS parked
    FROM chosen c
    LEFT JOIN due d ON d.queue = c.queue AND d.tenant = c.tenant
    LEFT JOIN held h ON h.queue = c.queue AND h.tenant = c.tenant
    LEFT JOIN LATERAL (
      SELECT sum(x.jobs) AS jobs, min(r.run_at) AS run_at FROM ready r CROSS JOIN LATERAL (
        SELECT count(*) AS jobs FROM (SELECT 1 FROM jobs.live v
          WHERE v.state = 1 AND v.queue = r.queue AND v.name = r.name AND v.suspect = r.suspect
            AND v.tenant = r.tenant LIMIT c_counted) y) x
      WHERE r.queue = c.queue AND r.tenant = c.tenant) r ON true
  )
  SELECT 0::int2, c.queue, c.tenant, greatest(c.scheduled - c.due, 0)::int8,
    (coalesce(c.ready, 0) + c.due + c.expired)::int8, c.running::int8, c.parked::int8, c.oldest,
    coalesce(a.weight, q.weight, 1),
    greatest(coalesce(a.paused_until, 0), coalesce(q.paused_until, 0)),
    a.changed, a.changed_by, a.changed_at, q.changed, q.changed_by, q.changed_at,
    NULL::int8, NULL::int8, NULL::int8, v_now
  FROM counted c
  LEFT JOIN jobs.lane a ON a.queue = c.queue AND a.tenant = c.tenant
  LEFT JOIN jobs.queue q ON q.queue = c.queue;

  RETURN QUERY
  SELECT 1::int2, m.queue, m.tenant, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::int8,
    NULL::int4, NULL::int8, NULL::text, NULL::text, NULL::int8, NULL::text, NULL::text, NULL::int8,
    m.at, m.finished, m.failed, v_now
  FROM (
    SELECT x.at, x.queue, x.tenant, sum(x.finished)::int8 AS finished, sum(x.failed)::int8 AS failed
    FROM jobs.minute x
    WHERE x.at >= v_now - 3600000 AND (p_tenant IS NULL OR x.tenant = p_tenant)
      AND (p_queue IS NULL OR x.queue = p_queue)
    GROUP BY x.at, x.queue, x.tenant
    ORDER BY x.at DESC, x.queue, x.tenant LIMIT p_minutes) m
  WHERE m.finished > 0 OR m.failed > 0
  ORDER BY m.at, m.queue, m.tenant;
END $$;
