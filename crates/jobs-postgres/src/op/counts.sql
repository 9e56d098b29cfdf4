-- Counts of lanes that have live jobs or settings, those where a job waits first, what ended minute by
-- minute (`part` 1), and a head (`part` 2, `at` 1 when no lane was missed). Lanes are sought from the
-- jobs, a step each line that has some: idle ones cost nothing. Of one tenant only its own lines are
-- walked, and a step for each name and suspicion that others have work of in between. '~' is after all
-- names. Stable, so that all is of one snapshot.
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
  v_slot int8 := jobs.floor_of('lease', '', v_now) / 15000;
  v_part int8 := jobs.floor_of('part', '', v_now);
  v_from text := coalesce(p_tenant, '');
  v_to text := coalesce(p_tenant, '~');
  v_queue_from text := coalesce(p_queue, '');
  v_queue_to text := coalesce(p_queue, '~');
BEGIN
  RETURN QUERY
  WITH RECURSIVE
  lines AS (
    (SELECT v.queue, v.name, v.suspect, v.tenant, v.rank, v.run_at FROM jobs.live v
      WHERE v.state = 1 AND v.queue >= v_queue_from AND v.queue <= v_queue_to
      ORDER BY v.queue, v.name, v.suspect, v.tenant, v.rank, v.run_at LIMIT 1)
    UNION ALL
    SELECT x.* FROM lines t CROSS JOIN LATERAL (
      SELECT v.queue, v.name, v.suspect, v.tenant, v.rank, v.run_at FROM jobs.live v
      WHERE v.state = 1 AND v.queue <= v_queue_to
        AND (v.queue, v.name, v.suspect, v.tenant, v.rank) > (t.queue, t.name, t.suspect,
          CASE WHEN t.tenant < v_from THEN v_from WHEN t.tenant > v_to THEN '~' ELSE t.tenant END,
          (CASE WHEN t.tenant < v_from THEN -32768 ELSE t.rank END)::int2)
      ORDER BY v.queue, v.name, v.suspect, v.tenant, v.rank, v.run_at LIMIT 1) x
  ),
  walked AS MATERIALIZED (SELECT * FROM lines LIMIT c_steps),
  ready AS MATERIALIZED (
    SELECT t.queue, t.name, t.suspect, t.tenant, min(t.run_at) AS run_at
    FROM walked t WHERE t.tenant >= v_from AND t.tenant <= v_to
    GROUP BY t.queue, t.name, t.suspect, t.tenant
  ),
  -- Scheduled jobs, each lane's and name's by the first that is due; it waits though nobody promoted it.
  shelves AS (
    (SELECT v.queue, v.name, v.tenant, v.run_at FROM jobs.live v
      WHERE v.state = 0 AND v.queue >= v_queue_from AND v.queue <= v_queue_to
      ORDER BY v.queue, v.name, v.tenant, v.run_at LIMIT 1)
    UNION ALL
    SELECT x.* FROM shelves t CROSS JOIN LATERAL (
      SELECT v.queue, v.name, v.tenant, v.run_at FROM jobs.live v
      WHERE v.state = 0 AND v.queue <= v_queue_to
        AND (v.queue, v.name, v.tenant, v.run_at) > (t.queue, t.name,
          CASE WHEN t.tenant < v_from THEN v_from WHEN t.tenant > v_to THEN '~' ELSE t.tenant END,
          CASE WHEN t.tenant < v_from THEN -1 ELSE 9223372036854775807 END)
      ORDER BY v.queue, v.name, v.tenant, v.run_at LIMIT 1) x
  ),
  looked AS MATERIALIZED (SELECT * FROM shelves LIMIT c_steps),
  shelved AS MATERIALIZED (
    SELECT * FROM looked t WHERE t.tenant >= v_from AND t.tenant <= v_to
  ),
  stopped AS (
    (SELECT v.tenant, v.queue FROM jobs.live v
      WHERE v.state = 3 AND v.tenant >= v_from AND v.tenant <= v_to
      ORDER BY v.tenant, v.queue LIMIT 1)
    UNION ALL
    SELECT x.* FROM stopped t CROSS JOIN LATERAL (
      SELECT v.tenant, v.queue FROM jobs.live v
      WHERE v.state = 3 AND v.tenant <= v_to AND (v.tenant, v.queue, v.id) > (t.tenant,
        CASE WHEN t.queue < v_queue_from THEN v_queue_from WHEN t.queue > v_queue_to THEN '~'
          ELSE t.queue END,
        CASE WHEN t.queue < v_queue_from THEN '00000000-0000-0000-0000-000000000000'::uuid
          ELSE 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid END)
      ORDER BY v.tenant, v.queue LIMIT 1) x
  ),
  parked AS MATERIALIZED (SELECT * FROM stopped LIMIT c_steps),
  held AS MATERIALIZED (
    SELECT v.queue, v.tenant, count(*) FILTER (WHERE v.lease_until > v_now) AS running,
      count(*) FILTER (WHERE v.lease_until IS NULL OR v.lease_until <= v_now) AS expired,
      min(v.run_at) FILTER (WHERE v.lease_until IS NULL OR v.lease_until <= v_now) AS run_at
    FROM jobs.live v
    WHERE v.state = 2 AND v.lease_slot >= v_slot AND v.queue >= v_queue_from AND v.queue <= v_queue_to
      AND v.tenant >= v_from AND v.tenant <= v_to
    GROUP BY v.queue, v.tenant
  ),
  found AS (
    SELECT r.queue, r.tenant, false AS idle FROM ready r
    UNION ALL SELECT s.queue, s.tenant, s.run_at > v_now FROM shelved s
    UNION ALL SELECT h.queue, h.tenant, h.expired = 0 FROM held h
    UNION ALL SELECT s.queue, s.tenant, true FROM parked s
    UNION ALL SELECT a.queue, a.tenant, true FROM jobs.lane a WHERE a.tenant >= v_from AND a.tenant <= v_to
  ),
  chosen AS MATERIALIZED (
    SELECT f.queue, f.tenant FROM found f WHERE f.queue >= v_queue_from AND f.queue <= v_queue_to
    GROUP BY f.queue, f.tenant
    ORDER BY bool_and(f.idle), f.queue, f.tenant LIMIT p_most
  ),
  counted AS (
    SELECT c.queue, c.tenant, r.jobs AS ready, least(r.run_at, s.run_at, h.run_at) AS oldest,
      coalesce(s.due, 0) AS due, coalesce(s.later, 0) AS scheduled, coalesce(h.running, 0) AS running,
      coalesce(h.expired, 0) AS expired,
      (SELECT count(*) FROM (SELECT 1 FROM jobs.live v WHERE v.state = 3 AND v.tenant = c.tenant
        AND v.queue = c.queue LIMIT c_counted) x) AS parked
    FROM chosen c
    LEFT JOIN held h ON h.queue = c.queue AND h.tenant = c.tenant
    LEFT JOIN LATERAL (
      SELECT sum(x.jobs) AS jobs, min(r.run_at) AS run_at FROM ready r CROSS JOIN LATERAL (
        SELECT count(*) AS jobs FROM (SELECT 1 FROM jobs.live v
          WHERE v.state = 1 AND v.queue = r.queue AND v.name = r.name AND v.suspect = r.suspect
            AND v.tenant = r.tenant LIMIT c_counted) y) x
      WHERE r.queue = c.queue AND r.tenant = c.tenant) r ON true
    LEFT JOIN LATERAL (
      SELECT sum(x.jobs) AS due, sum(y.jobs) AS later,
        min(s.run_at) FILTER (WHERE s.run_at <= v_now) AS run_at
      FROM shelved s
      CROSS JOIN LATERAL (
        SELECT count(*) AS jobs FROM (SELECT 1 FROM jobs.live v
          WHERE v.state = 0 AND v.queue = s.queue AND v.name = s.name AND v.tenant = s.tenant
            AND v.run_at <= v_now LIMIT c_counted) z) x
      CROSS JOIN LATERAL (
        SELECT count(*) AS jobs FROM (SELECT 1 FROM jobs.live v
          WHERE v.state = 0 AND v.queue = s.queue AND v.name = s.name AND v.tenant = s.tenant
            AND v.run_at > v_now LIMIT c_counted) z) y
      WHERE s.queue = c.queue AND s.tenant = c.tenant) s ON true
  )
  SELECT 0::int2, c.queue, c.tenant, c.scheduled::int8,
    (coalesce(c.ready, 0) + c.due + c.expired)::int8, c.running::int8, c.parked::int8, c.oldest,
    coalesce(a.weight, q.weight, 1),
    greatest(coalesce(a.paused_until, 0), coalesce(q.paused_until, 0)),
    a.changed, a.changed_by, a.changed_at, q.changed, q.changed_by, q.changed_at,
    NULL::int8, NULL::int8, NULL::int8, v_now
  FROM counted c
  LEFT JOIN jobs.lane a ON a.queue = c.queue AND a.tenant = c.tenant
  LEFT JOIN jobs.queue q ON q.queue = c.queue
  UNION ALL
  SELECT 2::int2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    ((SELECT count(*) FROM walked) < c_steps AND (SELECT count(*) FROM looked) < c_steps
      AND (SELECT count(*) FROM parked) < c_steps)::int4::int8, NULL, NULL, v_now;

  RETURN QUERY
  SELECT 1::int2, m.queue, m.tenant, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::int8,
    NULL::int4, NULL::int8, NULL::text, NULL::text, NULL::int8, NULL::text, NULL::text, NULL::int8,
    m.at, m.finished, m.failed, v_now
  FROM (
    SELECT x.at, x.queue, x.tenant, sum(x.finished)::int8 AS finished, sum(x.failed)::int8 AS failed
    FROM (
      SELECT y.at, y.queue, y.tenant, y.finished, y.failed FROM jobs.minute y
      WHERE y.whole AND y.at >= v_now - 3600000 AND y.tenant >= v_from AND y.tenant <= v_to
        AND y.queue >= v_queue_from AND y.queue <= v_queue_to
      UNION ALL
      SELECT y.at, y.queue, y.tenant, y.finished, y.failed FROM jobs.minute y
      WHERE NOT y.whole AND y.at >= greatest(v_part, v_now - 3600000) AND y.tenant >= v_from
        AND y.tenant <= v_to AND y.queue >= v_queue_from AND y.queue <= v_queue_to) x
    GROUP BY x.at, x.queue, x.tenant
    ORDER BY x.at DESC, x.queue, x.tenant LIMIT p_minutes) m
  WHERE m.finished > 0 OR m.failed > 0
  ORDER BY m.at, m.queue, m.tenant;
END $$;
