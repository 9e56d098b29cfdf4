-- The turns of at most `p_most` lanes, those that are next by least lag and then longest without a visit
-- (`lanes` have work at all), and the contested names with their virtual nows. `finish`, `visited` and
-- `open`, has the lane work of the name, are by lane and name. `line_at` are the places in `p_lines` of what
-- these lanes have, in the order of the lanes, and `line_lane` whose they are. `p_finish` and `p_visited` are
-- the turns of lines as far as they were read under this lock, `read_finish` and `read_visited` as they are
-- now. Each is read from the index's end, over no older version.
CREATE FUNCTION jobs.turns(
  p_queue text, p_lines jobs.line[], p_finish int8[], p_visited int8[], p_slow bool, p_most int4,
  OUT tenants text[], OUT weights int4[], OUT names text[], OUT nows int8[], OUT finish int8[],
  OUT visited int8[], OUT open bool[], OUT lanes int4, OUT line_at int4[], OUT line_lane int4[],
  OUT read_finish int8[], OUT read_visited int8[]
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  WITH s AS MATERIALIZED (
    SELECT l.tenant, l.name, l.at::int4 AS at, l.has AND (p_slow OR l.quick) AS some,
      CASE WHEN l.has THEN coalesce(p_finish[l.at], x.finish, 0) END AS finish,
      CASE WHEN l.has THEN coalesce(p_visited[l.at], x.visited, 0) END AS visited
    FROM unnest(p_lines) WITH ORDINALITY
      AS l(name, suspect, tenant, rank, due, id, has, quick, at)
    LEFT JOIN LATERAL (
      SELECT u.finish, u.visited FROM jobs.turn u
      WHERE l.has AND p_finish[l.at] IS NULL
        AND u.queue = p_queue AND u.name = l.name AND u.tenant = l.tenant
      ORDER BY u.finish DESC LIMIT 1) x ON true
  ), n AS MATERIALIZED (
    SELECT s.name, coalesce(x.finish, 0) AS now
    FROM (SELECT DISTINCT s.name FROM s WHERE s.some) s
    LEFT JOIN LATERAL (
      SELECT u.finish FROM jobs.turn u
      WHERE u.queue = p_queue AND u.name = s.name AND u.tenant = ''
      ORDER BY u.finish DESC LIMIT 1) x ON true
  ), m AS (
    SELECT s.tenant, s.name, s.at, s.visited, greatest(s.finish - n.now, 0) AS lag
    FROM n JOIN s ON s.name = n.name WHERE s.some
  ), d AS (
    -- No join of lanes with lanes: that would be the square of them.
    SELECT m.tenant, min(m.lag) AS lag, (array_agg(m.visited ORDER BY m.lag, m.visited))[1] AS last,
      array_agg(m.name) AS names, array_agg(m.at) AS at, count(*) OVER () AS lanes
    FROM m GROUP BY m.tenant
  ), c AS MATERIALIZED (
    SELECT d.*, coalesce(
      (SELECT a.weight FROM jobs.lane a WHERE a.queue = p_queue AND a.tenant = d.tenant),
      (SELECT q.weight FROM jobs.queue q WHERE q.queue = p_queue), 1) AS weight
    FROM d ORDER BY d.lag, d.last, d.tenant LIMIT p_most
  ), e AS MATERIALIZED (
    SELECT c.*, y.*, row_number() OVER () AS nr FROM c
    CROSS JOIN LATERAL (
      SELECT array_agg(coalesce(x.finish, 0) ORDER BY n.name) AS finish,
        array_agg(coalesce(x.visited, 0) ORDER BY n.name) AS visited,
        array_agg(n.name = ANY (c.names) ORDER BY n.name) AS open
      FROM n LEFT JOIN LATERAL (
        SELECT u.finish, u.visited FROM jobs.turn u
        WHERE u.queue = p_queue AND u.name = n.name AND u.tenant = c.tenant
        ORDER BY u.finish DESC LIMIT 1) x ON true) y
  )
  SELECT array_agg(e.tenant), array_agg(e.weight),
    (SELECT array_agg(n.name ORDER BY n.name) FROM n), (SELECT array_agg(n.now ORDER BY n.name) FROM n),
    array_agg(e.finish), array_agg(e.visited), array_agg(e.open), min(e.lanes),
    (SELECT array_agg(a.at) FROM e CROSS JOIN unnest(e.at) AS a(at)),
    (SELECT array_agg(e.nr::int4) FROM e CROSS JOIN unnest(e.at)),
    (SELECT array_agg(s.finish) FROM s), (SELECT array_agg(s.visited) FROM s)
  INTO tenants, weights, names, nows, finish, visited, open, lanes, line_at, line_lane, read_finish,
    read_visited
  FROM e;
END $$;

-- Takes turns: visits of at most a batch until `p_most` jobs are shared out, each to the lane of the
-- least lag among its names with work, then longest without a visit. A visit is charged at every
-- contested name, as in the contract's model (crates/jobs-testkit/src/model/lanes.rs). Which lane gets how
-- many (`counts`) is planned as if each had enough (`p_got` null), and charged by what each gave.
-- `p_others`: somebody else has work.
CREATE FUNCTION jobs.share(
  INOUT finish int8[], INOUT visited int8[], INOUT nows int8[], OUT counts int4[],
  p_open bool[], p_weights int4[], p_most int4, p_others bool, p_got int4[]
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  c_batch CONSTANT int4 := 8;
  c_unit CONSTANT int8 := 1048576;
  k CONSTANT int4 := cardinality(nows);
  v_lanes CONSTANT int4 := cardinality(p_weights);
  v_left int4[] := p_got;
  v_most int4 := p_most;
  v_keys int8[];   -- of each lane the least lag of its names with work, and its last visit there
  v_lasts int8[];
  v_moved bool := true;
  v_lane int4;
  v_lag int8;
  v_key int8;
  v_got int4;
  v_cost int8;
  v_start int8;
  v_now int8;
  v_clock int8 := (extract(epoch FROM clock_timestamp()) * 1000000)::int8;
BEGIN
  counts := array_fill(0, ARRAY[v_lanes]);
  WHILE v_most > 0 LOOP
    -- Of all where the virtual now moved, else of the lane that was visited.
    FOR i IN CASE WHEN v_moved THEN 1 ELSE v_lane END..CASE WHEN v_moved THEN v_lanes ELSE v_lane END LOOP
      v_keys[i] := NULL;
      FOR j IN 1..k LOOP
        CONTINUE WHEN NOT p_open[i][j];
        v_key := greatest(finish[i][j] - nows[j], 0);
        IF v_keys[i] IS NULL OR v_key < v_keys[i] OR (v_key = v_keys[i] AND visited[i][j] < v_lasts[i]) THEN
          v_keys[i] := v_key;
          v_lasts[i] := visited[i][j];
        END IF;
      END LOOP;
    END LOOP;
    v_lane := NULL;
    FOR i IN 1..v_lanes LOOP
      CONTINUE WHEN v_left[i] = 0 OR v_keys[i] IS NULL;
      IF v_lane IS NULL OR v_keys[i] < v_lag OR (v_keys[i] = v_lag AND v_lasts[i] < v_lasts[v_lane]) THEN
        v_lane := i;
        v_lag := v_keys[i];
      END IF;
    END LOOP;
    EXIT WHEN v_lane IS NULL;
    v_got := CASE WHEN p_others OR v_lanes > 1 THEN least(c_batch, v_most) ELSE v_most END;
    IF v_left IS NOT NULL THEN
      v_got := least(v_got, v_left[v_lane]);
      v_left[v_lane] := v_left[v_lane] - v_got;
    END IF;
    counts[v_lane] := counts[v_lane] + v_got;
    v_most := v_most - v_got;
    -- A lane alone is visited for longer than a batch; time goes on with it, or whoever comes next
    -- would have that visit's length as credit.
    v_cost := c_unit / p_weights[v_lane];
    v_clock := greatest(v_clock + 1, v_lasts[v_lane] + 1);
    v_moved := false;
    FOR j IN 1..k LOOP
      v_start := greatest(finish[v_lane][j], nows[j]);
      finish[v_lane][j] := v_start + v_got * v_cost;
      visited[v_lane][j] := v_clock;
      v_now := greatest(nows[j] + v_lag, v_start, finish[v_lane][j] - c_batch * v_cost);
      v_moved := v_moved OR v_now > nows[j];
      nows[j] := v_now;
    END LOOP;
  END LOOP;
END $$;

-- Writes the turns of lanes that were visited: new rows with a greater finish, and the versions before
-- them go.
CREATE FUNCTION jobs.charge(
  p_queue text, p_tenants text[], p_counts int4[], p_names text[], p_before int8[], p_nows int8[],
  p_finish int8[], p_visited int8[]
) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  WITH c AS MATERIALIZED (
    SELECT a.tenant, b.name, p_finish[a.at][b.at] AS finish,
      p_visited[a.at][b.at] AS visited
    FROM unnest(p_tenants, p_counts) WITH ORDINALITY AS a(tenant, count, at)
    CROSS JOIN unnest(p_names) WITH ORDINALITY AS b(name, at)
    WHERE a.count > 0
    UNION ALL
    SELECT '', b.name, b.now, 0
    FROM unnest(p_names, p_nows, p_before) AS b(name, now, before)
    WHERE b.now > b.before
  ), i AS (
    INSERT INTO jobs.turn (queue, name, tenant, finish, visited)
    SELECT p_queue, c.name, c.tenant, c.finish, c.visited FROM c
    ON CONFLICT DO NOTHING
  )
  DELETE FROM jobs.turn u USING (
    SELECT x.ctid AS at FROM c CROSS JOIN LATERAL (
      SELECT o.ctid FROM jobs.turn o
      WHERE o.queue = p_queue AND o.name = c.name AND o.tenant = c.tenant AND o.finish < c.finish
      ORDER BY o.finish DESC LIMIT 1) x) d
  WHERE u.ctid = d.at;
END $$;
