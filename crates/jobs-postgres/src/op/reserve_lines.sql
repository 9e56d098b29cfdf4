-- The first jobs of every line with work of known names: a walk from line to line, whose cost is that
-- of the lines and not of the jobs in them.
CREATE FUNCTION jobs.lines(p_queue text, p_names text[])
RETURNS TABLE (name text, suspect bool, tenant text, rank int2, run_at int8, id uuid) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE t AS (
    SELECT n.name, n.suspect, x.* FROM (
      SELECT s.name, b.suspect FROM unnest(p_names) AS s(name)
      CROSS JOIN (VALUES (false), (true)) AS b(suspect)) n
    CROSS JOIN LATERAL (
      SELECT v.tenant, v.rank, v.run_at, v.id FROM jobs.live v
      WHERE v.state = 1 AND v.queue = p_queue AND v.name = n.name AND v.suspect = n.suspect
      ORDER BY v.tenant, v.rank, v.run_at, v.id LIMIT 1) x
    UNION ALL
    SELECT t.name, t.suspect, x.* FROM t
    CROSS JOIN LATERAL (
      SELECT v.tenant, v.rank, v.run_at, v.id FROM jobs.live v
      WHERE v.state = 1 AND v.queue = p_queue AND v.name = t.name AND v.suspect = t.suspect
        AND (v.tenant, v.rank) > (t.tenant, t.rank)
      ORDER BY v.tenant, v.rank, v.run_at, v.id LIMIT 1) x
  )
  SELECT t.name, t.suspect, t.tenant, t.rank, t.run_at, t.id FROM t LIMIT 10000;
END $$;

-- Puts what came due in line. In the order of time, and when a crowd came due at once, also the first
-- jobs of every tenant, so that none hides another's.
CREATE FUNCTION jobs.promote(p_queue text, p_names text[], p_since int8, p_now int8,
  OUT count int8, OUT more bool) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  c_most CONSTANT int8 := 1024;
BEGIN
  WITH d AS MATERIALIZED (
    SELECT x.* FROM unnest(p_names) AS s(name)
    CROSS JOIN LATERAL (
      SELECT v.id, v.tenant FROM jobs.live v
      WHERE v.state = 0 AND v.queue = p_queue AND v.name = s.name
        AND v.run_at >= p_since AND v.run_at <= p_now
      ORDER BY v.run_at LIMIT c_most FOR UPDATE SKIP LOCKED) x
  ), u AS (
    UPDATE jobs.live v SET state = 1 FROM d WHERE v.id = d.id AND v.tenant = d.tenant
  )
  SELECT count(*) INTO count FROM d;
  more := count >= c_most;
  IF NOT more THEN
    RETURN;
  END IF;
  WITH RECURSIVE t AS (
    SELECT s.name, x.tenant FROM unnest(p_names) AS s(name)
    CROSS JOIN LATERAL (
      SELECT v.tenant FROM jobs.live v
      WHERE v.state = 0 AND v.queue = p_queue AND v.name = s.name ORDER BY v.tenant LIMIT 1) x
    UNION ALL
    SELECT t.name, x.tenant FROM t
    CROSS JOIN LATERAL (
      SELECT v.tenant FROM jobs.live v
      WHERE v.state = 0 AND v.queue = p_queue AND v.name = t.name AND v.tenant > t.tenant
      ORDER BY v.tenant LIMIT 1) x
  ), d AS MATERIALIZED (
    SELECT x.* FROM t
    CROSS JOIN LATERAL (
      SELECT v.id, v.tenant FROM jobs.live v
      WHERE v.state = 0 AND v.queue = p_queue AND v.name = t.name AND v.tenant = t.tenant
        AND v.run_at <= p_now
      ORDER BY v.run_at LIMIT 16 FOR UPDATE SKIP LOCKED) x
  )
  UPDATE jobs.live v SET state = 1 FROM d WHERE v.id = d.id AND v.tenant = d.tenant;
END $$;
