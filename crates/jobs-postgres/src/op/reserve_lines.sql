-- A line: the jobs of one name of one tenant, suspect or not, in the order of (rank, due, id), from a
-- place in it on. `has`: there may be some. `quick`: they may be held ahead.
CREATE TYPE jobs.line AS (
  name text COLLATE "C", suspect bool, tenant text COLLATE "C", rank int2, due int8, id uuid,
  has bool, quick bool
);

-- Looks for lines with work: a walk from line to line in the order of (name, suspect, tenant), on from
-- a line, which costs a seek a line whatever is in it. Answers the head of each, at most `p_most`. Those of
-- paused lanes are passed over and do not count, so that nobody hides behind them; only three times
-- `p_most` seeks are made in all. Where it ended for either bound, `ended` is where the next look goes on.
-- Names come sorted. Lines of `p_known` are stepped over unseen, with the dead entries before their heads
-- that a long snapshot keeps.
CREATE FUNCTION jobs.look(
  p_queue text, p_names text[], p_name text, p_suspect bool, p_tenant text, p_most int4, p_now int8,
  p_quick text[], p_known jobs.line[], OUT lines jobs.line[], OUT ended jobs.line
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  c_after_all CONSTANT text := '~';
  v_name text;
  v_suspect bool;
  v_quick bool;
  v_after text;
  v_known text[];
  v_left int4 := p_most;
  v_seeks int4 := 3 * p_most;
  v_lines jobs.line[];
  v_made int4;
BEGIN
  lines := '{}';
  FOREACH v_name IN ARRAY p_names LOOP
    CONTINUE WHEN v_name COLLATE "C" < p_name;
    FOREACH v_suspect IN ARRAY ARRAY[false, true] LOOP
      CONTINUE WHEN v_name = p_name AND v_suspect < p_suspect;
      v_after := CASE WHEN v_name = p_name AND v_suspect = p_suspect THEN p_tenant ELSE '' END;
      v_quick := NOT v_suspect AND v_name = ANY (p_quick);
      v_known := ARRAY(SELECT k.tenant FROM unnest(p_known) AS k
        WHERE k.name = v_name AND k.suspect = v_suspect AND k.tenant > v_after ORDER BY k.tenant)
        || c_after_all;
      WITH RECURSIVE t AS (
        -- `at`: the known line that comes next.
        SELECT 1 AS at, v_after COLLATE "C" AS tenant, NULL::int2 AS rank, NULL::int8 AS run_at,
          NULL::uuid AS id, true AS paused, 0 AS nth, 0 AS seek
        UNION ALL
        SELECT t.at + (x.id IS NULL)::int4, coalesce(x.tenant, v_known[t.at]), x.rank, x.run_at, x.id,
          x.paused, t.nth + (x.paused IS FALSE)::int4, t.seek + 1
        FROM t LEFT JOIN LATERAL (
          SELECT v.tenant, v.rank, v.run_at, v.id, EXISTS (SELECT FROM jobs.lane a
            WHERE a.queue = p_queue AND a.tenant = v.tenant AND a.paused_until > p_now) AS paused
          FROM jobs.live v
          WHERE v.state = 1 AND v.queue = p_queue AND v.name = v_name AND v.suspect = v_suspect
            AND v.tenant > t.tenant AND v.tenant < v_known[t.at]
          ORDER BY v.tenant, v.rank, v.run_at, v.id LIMIT 1) x ON true
        WHERE t.at <= cardinality(v_known) AND t.nth < v_left AND t.seek < v_seeks
      )
      SELECT array_agg(ROW(v_name, v_suspect, t.tenant, t.rank, t.run_at, t.id, true,
          v_quick)::jobs.line) FILTER (WHERE NOT t.paused), max(t.seek),
        max(t.tenant)
      INTO v_lines, v_made, v_after FROM t;
      lines := lines || v_lines;
      v_left := v_left - coalesce(cardinality(v_lines), 0);
      v_seeks := v_seeks - v_made;
      IF v_left <= 0 OR v_seeks <= 0 THEN
        ended.name := v_name;
        ended.suspect := v_suspect;
        ended.tenant := v_after;
        RETURN;
      END IF;
    END LOOP;
  END LOOP;
END $$;

-- Puts what came due in line, at most `c_most` jobs a name in the order of time; when a crowd came due at
-- once, also the first of each tenant after `p_after`, so that none hides another's. Answers the lines
-- they are in now. `p_more` is set where some are left, `p_after` to the last tenant.
CREATE FUNCTION jobs.promote(
  p_queue text, p_names text[], p_since int8, p_now int8, INOUT p_after text,
  OUT p_more bool, OUT p_lines jobs.line[]
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  c_most CONSTANT int8 := 1024;
  c_tenants CONSTANT int8 := 128;
  c_each CONSTANT int8 := 8;
  v_lines jobs.line[];
  v_last text;
  v_crowd text[];
BEGIN
  WITH d AS MATERIALIZED (
    SELECT x.*, s.name FROM unnest(p_names) AS s(name)
    CROSS JOIN LATERAL (
      SELECT v.id, v.tenant, v.suspect, v.rank, v.run_at FROM jobs.live v
      WHERE v.state = 0 AND v.queue = p_queue AND v.name = s.name
        AND v.run_at >= p_since AND v.run_at <= p_now
      ORDER BY v.run_at LIMIT c_most FOR UPDATE SKIP LOCKED) x
  ), u AS (
    UPDATE jobs.live v SET state = 1 FROM d WHERE v.id = d.id AND v.tenant = d.tenant
  ), h AS (
    SELECT DISTINCT ON (d.name, d.suspect, d.tenant) d.* FROM d
    ORDER BY d.name, d.suspect, d.tenant, d.rank, d.run_at, d.id
  )
  SELECT coalesce(array_agg(ROW(h.name, h.suspect, h.tenant, h.rank, h.run_at, h.id, NULL,
      NULL)::jobs.line), '{}'),
    (SELECT array_agg(n.name) FROM (SELECT d.name FROM d GROUP BY d.name HAVING count(*) >= c_most) n)
  INTO p_lines, v_crowd FROM h;
  p_more := v_crowd IS NOT NULL;
  IF NOT p_more THEN
    RETURN;
  END IF;
  WITH RECURSIVE t AS (
    SELECT s.name, x.tenant, 1 AS at FROM unnest(v_crowd) AS s(name)
    CROSS JOIN LATERAL (
      SELECT v.tenant FROM jobs.live v
      WHERE v.state = 0 AND v.queue = p_queue AND v.name = s.name AND v.tenant > p_after
      ORDER BY v.tenant LIMIT 1) x
    UNION ALL
    SELECT t.name, x.tenant, t.at + 1 FROM t
    CROSS JOIN LATERAL (
      SELECT v.tenant FROM jobs.live v
      WHERE v.state = 0 AND v.queue = p_queue AND v.name = t.name AND v.tenant > t.tenant
      ORDER BY v.tenant LIMIT 1) x
    WHERE t.at < c_tenants
  ), d AS MATERIALIZED (
    SELECT x.*, t.name FROM t
    CROSS JOIN LATERAL (
      SELECT v.id, v.tenant, v.suspect, v.rank, v.run_at FROM jobs.live v
      WHERE v.state = 0 AND v.queue = p_queue AND v.name = t.name AND v.tenant = t.tenant
        AND v.run_at <= p_now
      ORDER BY v.run_at LIMIT c_each FOR UPDATE SKIP LOCKED) x
  ), u AS (
    UPDATE jobs.live v SET state = 1 FROM d WHERE v.id = d.id AND v.tenant = d.tenant
  ), h AS (
    SELECT DISTINCT ON (d.name, d.suspect, d.tenant) d.* FROM d
    ORDER BY d.name, d.suspect, d.tenant, d.rank, d.run_at, d.id
  )
  SELECT coalesce(array_agg(ROW(h.name, h.suspect, h.tenant, h.rank, h.run_at, h.id, NULL,
      NULL)::jobs.line), '{}'),
    -- Where one name's walk ended early, all go on from there.
    (SELECT min(e.tenant) FROM t e WHERE e.at >= c_tenants)
  INTO v_lines, v_last FROM h;
  p_lines := p_lines || v_lines;
  p_after := coalesce(v_last, '');
END $$;
