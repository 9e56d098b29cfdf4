-- Takes due jobs under a lease, in one call. docs/ARCHITECTURE.md says who is next and why.
-- lines: what the handle knows of lines with work, each from a place in its order on, so that what was
-- taken before is not walked over again; `more` says that it knows others. `look` asks to look for all
-- lines first, which also happens when they do not fill the wish, or a job came due that was not before
-- `since`. Answers a head (`code` 1 when it looked, `run_at` now, `fence` when the next scheduled job is
-- due, `timeout` until when all that was due is in line, `at` how long a look took in microseconds),
-- deliveries in order, lines (`code` 1 with work from that place on, 0 without; `fence` and `timeout`
-- the lane's finish and last visit there, where they were read), and the virtual nows of names (part 4).
CREATE FUNCTION jobs.reserve(
  p_queue text, p_names text[], p_quick text[], p_slots int4, p_most int4, p_lease int8,
  p_nonce int8, p_worker text, p_look bool, p_since int8, p_more bool,
  line_names text[], line_suspects bool[], line_tenants text[], line_ranks int2[], line_dues int8[],
  line_ids uuid[]
) RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  c_batch CONSTANT int4 := 8;
  c_unit CONSTANT int8 := 1048576;
  v_now int8;
  v_due int8;
  v_most int4 := p_most;      -- what may still be taken
  v_free int4 := p_slots;     -- of anything: the rest must be fit to be held ahead (R7)
  v_ids uuid[] := '{}';
  v_tenants text[] := '{}';
  v_started_ids uuid[] := '{}';
  v_started_tenants text[] := '{}';
  v_look bool := p_look;
  v_looked bool := false;
  v_began timestamptz;
  v_took int4;
  v_since int8;
  v_locked bool := false;
  v_until int8;
  v_weight int4;
  v_tuned bool;
  -- all lines
  a_names text[] := line_names;
  a_suspects bool[] := line_suspects;
  a_tenants text[] := line_tenants;
  a_ranks int2[] := line_ranks;
  a_dues int8[] := line_dues;
  a_ids uuid[] := line_ids;
  a_quick bool[];
  a_left bool[];
  a_finish int8[];
  a_visited int8[];
  v_lanes int4;               -- how many lanes have work
  v_round int4;               -- how many of them this round looks at
  -- those of the round: lines by place among all, lane and name
  n int4;
  k int4;
  l_at int4[];
  l_lane int4[];
  l_name int4[];
  t_tenants text[];
  t_weights int4[];
  t_visited bool[];
  n_names text[];
  n_nows int8[];
  n_before int8[];
  n_open bool[];
  h_finish int8[];            -- by name, what the lanes beyond are not before
  h_visited int8[];
  f_finish int8[];            -- by lane and name
  f_visited int8[];
  v_turns bool;
  v_any bool;
  v_visits int4;
  v_lane int4;
  v_other int4;
  v_several bool;
  v_key int8;
  v_seen int8;
  v_lag int8;
  v_last int8;
  v_visit int4;
  v_got int4;
  v_rank int2;
  v_part int4;
  v_lines int4[];
  p_ids uuid[];
  p_lines int4[];
  p_dues int8[];
  p_slow int4;
  p_started uuid[];
  v_start int8;
  v_cost int8;
  v_clock int8;
BEGIN
  -- Two calls with one nonce, as of a client that gave up on the first: one after the other.
  PERFORM pg_advisory_xact_lock(p_nonce);
  SELECT t.ids, t.tenants INTO v_ids, v_tenants FROM jobs.taken t WHERE t.nonce = p_nonce;
  IF FOUND THEN
    -- The lease counts from this call, as the worker's own clock does.
    v_now := jobs.now_ms();
    UPDATE jobs.live v SET renewed_at = v_now, lease_until = v_now + p_lease
    FROM unnest(v_ids, v_tenants) AS s(id, tenant)
    WHERE v.id = s.id AND v.tenant = s.tenant AND v.state + 0 = 2 AND v.nonce = p_nonce;
    UPDATE jobs.taken SET until = v_now + p_lease WHERE nonce = p_nonce;
    RETURN QUERY SELECT * FROM jobs.deliver(v_ids, v_tenants, p_nonce);
    RETURN;
  END IF;
  v_ids := '{}';
  v_tenants := '{}';
  SELECT q.paused_until, q.weight INTO v_until, v_weight FROM jobs.queue q WHERE q.queue = p_queue;
  v_tuned := EXISTS (SELECT 1 FROM jobs.lane a WHERE a.queue = p_queue);
  v_now := jobs.now_ms();
  IF v_until > v_now THEN
    v_most := 0;
    a_names := '{}';
  END IF;
  IF v_most > 0 AND NOT v_look THEN
    SELECT x.count > 0, CASE WHEN x.more THEN p_since ELSE v_now END INTO v_look, v_since
    FROM jobs.promote(p_queue, p_names, p_since, v_now) x;
  END IF;
  WHILE v_most > 0 LOOP
    IF v_look THEN
      v_looked := true;
      v_began := clock_timestamp();
      SELECT CASE WHEN x.more THEN 0 ELSE v_now END INTO v_since
      FROM jobs.promote(p_queue, p_names, 0, v_now) x;
      SELECT coalesce(array_agg(x.name), '{}'), coalesce(array_agg(x.suspect), '{}'),
        coalesce(array_agg(x.tenant), '{}'), coalesce(array_agg(x.rank), '{}'),
        coalesce(array_agg(x.run_at), '{}'), coalesce(array_agg(x.id), '{}')
      INTO a_names, a_suspects, a_tenants, a_ranks, a_dues, a_ids
      FROM jobs.lines(p_queue, p_names) x;
      v_took := (extract(epoch FROM clock_timestamp() - v_began) * 1000000)::int4;
    END IF;
    v_look := true;
    -- The lines of paused lanes are out.
    SELECT coalesce(array_agg(NOT s.suspect AND s.name = ANY (p_quick) ORDER BY s.at), '{}'),
      coalesce(array_agg(NOT v_tuned OR NOT EXISTS (SELECT 1 FROM jobs.lane a
        WHERE a.queue = p_queue AND a.tenant = s.tenant AND a.paused_until > v_now) ORDER BY s.at), '{}')
    INTO a_quick, a_left
    FROM unnest(a_names, a_suspects, a_tenants) WITH ORDINALITY AS s(name, suspect, tenant, at);
    a_finish := array_fill(NULL::int8, ARRAY[cardinality(a_names)]);
    a_visited := a_finish;
    SELECT count(DISTINCT s.tenant) INTO v_lanes FROM unnest(a_tenants, a_left) AS s(tenant, has) WHERE s.has;
    v_several := v_lanes > 1 OR (p_more AND NOT v_looked);
    -- One tenant's one line needs no turns: whoever else is at it takes other jobs.
    IF NOT v_locked AND (v_several OR (SELECT count(*) > 1 FROM (
      SELECT DISTINCT s.a, s.b FROM unnest(a_names, a_suspects) AS s(a, b)) x))
    THEN
      PERFORM pg_advisory_xact_lock(hashtext('jobs.turn'), hashtext(p_queue));
      v_locked := true;
      v_now := jobs.now_ms();
    END IF;
    v_round := 1;
    WHILE v_most > 0 LOOP
      v_round := least(greatest(2 * v_round, v_most / c_batch + 2), 10000);
      v_turns := v_several;
      -- The names that somebody has work of, with their virtual nows: the newest of each.
      SELECT coalesce(array_agg(b.name), '{}'), coalesce(array_agg(coalesce(x.finish, 0)), '{}')
      INTO n_names, n_nows
      FROM (SELECT DISTINCT s.name FROM unnest(a_names, a_left, a_quick) AS s(name, has, quick)
        WHERE s.has AND (v_free > 0 OR s.quick)) b
      LEFT JOIN LATERAL (
        SELECT u.finish FROM jobs.turn u
        WHERE v_turns AND u.queue = p_queue AND u.name = b.name AND u.tenant = ''
        ORDER BY u.finish DESC LIMIT 1) x ON true;
      k := cardinality(n_names);
      EXIT WHEN k = 0;
      n_before := n_nows;
      -- The lanes that are next: the least lag among their names with work, then longest unvisited.
      WITH f AS MATERIALIZED (
        SELECT p.tenant, p.name, coalesce(x.finish, 0) AS finish, coalesce(x.visited, 0) AS visited,
          greatest(coalesce(x.finish, 0) - b.now, 0) AS lag
        FROM (SELECT DISTINCT s.name, s.tenant
          FROM unnest(a_names, a_tenants, a_left, a_quick) AS s(name, tenant, has, quick)
          WHERE s.has AND (v_free > 0 OR s.quick)) p
        JOIN unnest(n_names, n_nows) AS b(name, now) ON b.name = p.name
        LEFT JOIN LATERAL (
          SELECT u.finish, u.visited FROM jobs.turn u
          WHERE v_turns AND u.queue = p_queue AND u.name = p.name AND u.tenant = p.tenant
          ORDER BY u.finish DESC LIMIT 1) x ON true
      ), c AS MATERIALIZED (
        SELECT d.tenant FROM (SELECT DISTINCT ON (f.tenant) f.tenant, f.lag, f.visited FROM f
          ORDER BY f.tenant, f.lag, f.visited) d
        ORDER BY d.lag, d.visited LIMIT v_round
      )
      SELECT (SELECT array_agg(c.tenant) FROM c), (SELECT count(DISTINCT f.tenant) FROM f),
        array_agg(h.finish ORDER BY b.at), array_agg(h.visited ORDER BY b.at)
      INTO t_tenants, v_lanes, h_finish, h_visited
      FROM unnest(n_names) WITH ORDINALITY AS b(name, at)
      LEFT JOIN LATERAL (
        SELECT min(f.finish) AS finish, min(f.visited) AS visited FROM f
        WHERE f.name = b.name AND NOT EXISTS (SELECT 1 FROM c WHERE c.tenant = f.tenant)) h ON true;
      SELECT array_agg(coalesce(x.weight, v_weight, 1) ORDER BY a.at) INTO t_weights
      FROM unnest(t_tenants) WITH ORDINALITY AS a(tenant, at)
      LEFT JOIN LATERAL (SELECT l.weight FROM jobs.lane l
        WHERE v_tuned AND l.queue = p_queue AND l.tenant = a.tenant) x ON true;
      t_visited := array_fill(false, ARRAY[cardinality(t_tenants)]);
      IF v_turns THEN
        SELECT array_agg(coalesce(x.finish, 0) ORDER BY a.at, b.at),
          array_agg(coalesce(x.visited, 0) ORDER BY a.at, b.at)
        INTO f_finish, f_visited
        FROM unnest(t_tenants) WITH ORDINALITY AS a(tenant, at)
        CROSS JOIN unnest(n_names) WITH ORDINALITY AS b(name, at)
        LEFT JOIN LATERAL (
          SELECT u.finish, u.visited FROM jobs.turn u
          WHERE u.queue = p_queue AND u.name = b.name AND u.tenant = a.tenant
          ORDER BY u.finish DESC LIMIT 1) x ON true;
      END IF;
      SELECT array_agg(s.at::int4 ORDER BY s.at), array_agg(c.at::int4 ORDER BY s.at),
        array_agg(b.at::int4 ORDER BY s.at)
      INTO l_at, l_lane, l_name
      FROM unnest(a_names, a_tenants, a_left) WITH ORDINALITY AS s(name, tenant, has, at)
      JOIN unnest(t_tenants) WITH ORDINALITY AS c(tenant, at) ON c.tenant = s.tenant
      JOIN unnest(n_names) WITH ORDINALITY AS b(name, at) ON b.name = s.name
      WHERE s.has;
      n := cardinality(l_at);
      v_visits := 0;
      LOOP
        v_lane := NULL;
        v_other := NULL;
        v_any := v_lanes > cardinality(t_tenants) OR (p_more AND NOT v_looked);
        n_open := array_fill(false, ARRAY[k]);
        IF v_most > 0 THEN
          FOR i IN 1..n LOOP
            IF a_left[l_at[i]] AND (v_free > 0 OR a_quick[l_at[i]]) THEN
              n_open[l_name[i]] := true;
              IF v_other <> l_lane[i] THEN
                v_any := true;
              END IF;
              v_other := l_lane[i];
              v_key := 0;
              v_seen := 0;
              IF v_turns THEN
                v_part := (l_lane[i] - 1) * k + l_name[i];
                v_key := greatest(f_finish[v_part] - n_nows[l_name[i]], 0);
                v_seen := f_visited[v_part];
              END IF;
              IF v_lane IS NULL OR v_key < v_lag OR (v_key = v_lag AND v_seen < v_last) THEN
                v_lane := l_lane[i];
                v_lag := v_key;
                v_last := v_seen;
              END IF;
            END IF;
          END LOOP;
        END IF;
        EXIT WHEN v_lane IS NULL;
        -- A lane beyond this round may be before it now.
        IF v_visits > 0 AND v_turns THEN
          v_start := NULL;
          FOR j IN 1..k LOOP
            v_key := greatest(h_finish[j] - n_nows[j], 0);
            IF h_finish[j] IS NOT NULL
              AND (v_key < v_lag OR (v_key = v_lag AND h_visited[j] < v_last)) THEN
              v_start := v_key;
            END IF;
          END LOOP;
          EXIT WHEN v_start IS NOT NULL;
        END IF;
        v_visits := v_visits + 1;
        v_visit := CASE WHEN v_any THEN least(c_batch, v_most) ELSE v_most END;
        v_got := 0;
        -- The lane's jobs by (rank, due, id), rank by rank.
        WHILE v_got < v_visit LOOP
          v_rank := NULL;
          v_lines := '{}';
          FOR i IN 1..n LOOP
            v_part := l_at[i];
            IF l_lane[i] = v_lane AND a_left[v_part] AND (v_free > 0 OR a_quick[v_part]) THEN
              IF v_rank IS NULL OR a_ranks[v_part] < v_rank THEN
                v_rank := a_ranks[v_part];
                v_lines := ARRAY[v_part];
              ELSIF a_ranks[v_part] = v_rank THEN
                v_lines := v_lines || v_part;
              END IF;
            END IF;
          END LOOP;
          EXIT WHEN v_rank IS NULL;
          v_part := v_visit - v_got;
          WITH g AS MATERIALIZED (
            SELECT s.i, a_names[s.i] AS name, a_suspects[s.i] AS suspect, a_dues[s.i] AS due,
              a_ids[s.i] AS id, a_quick[s.i] AS quick
            FROM unnest(v_lines) AS s(i)
          ), c AS MATERIALIZED (
            SELECT x.id, x.run_at, x.keyed, g.i, g.quick FROM g
            CROSS JOIN LATERAL (
              SELECT v.id, v.run_at, v.keyed FROM jobs.live v
              WHERE v.state = 1 AND v.queue = p_queue AND v.name = g.name AND v.suspect = g.suspect
                AND v.tenant = t_tenants[v_lane] AND v.rank = v_rank
                AND (v.run_at, v.id) >= (g.due, g.id)
              ORDER BY v.run_at, v.id LIMIT v_part
              FOR UPDATE SKIP LOCKED) x
          ), o AS (
            SELECT c.*, sum((NOT c.quick)::int4) OVER (ORDER BY c.run_at, c.id) AS slow FROM c
          ), p AS MATERIALIZED (
            SELECT o.*, row_number() OVER (ORDER BY o.run_at, o.id) AS at FROM o
            WHERE o.quick OR o.slow <= v_free
            ORDER BY o.run_at, o.id LIMIT v_part
          ), u AS (
            UPDATE jobs.live v SET state = 2, attempt = v.attempt + 1, fence = v.fence + 1,
              nonce = p_nonce, outcome = NULL, lease_until = v_now + p_lease, started_at = v_now,
              renewed_at = v_now, worker = p_worker,
              keyed = CASE v.keyed WHEN 2 THEN 0 ELSE v.keyed END
            FROM p WHERE v.id = p.id AND v.tenant = t_tenants[v_lane]
          )
          SELECT coalesce(array_agg(p.id ORDER BY p.at), '{}'),
            coalesce(array_agg(p.i ORDER BY p.at), '{}'),
            coalesce(array_agg(p.run_at ORDER BY p.at), '{}'), count(*) FILTER (WHERE NOT p.quick),
            coalesce(array_agg(p.id) FILTER (WHERE p.keyed = 2), '{}')
          INTO p_ids, p_lines, p_dues, p_slow, p_started FROM p;
          v_ids := v_ids || p_ids;
          v_tenants := v_tenants || array_fill(t_tenants[v_lane], ARRAY[cardinality(p_ids)]);
          IF cardinality(p_started) > 0 THEN
            v_started_ids := v_started_ids || p_started;
            v_started_tenants := v_started_tenants
              || array_fill(t_tenants[v_lane], ARRAY[cardinality(p_started)]);
          END IF;
          FOR j IN 1..cardinality(p_ids) LOOP
            a_dues[p_lines[j]] := p_dues[j];
            a_ids[p_lines[j]] := p_ids[j];
          END LOOP;
          v_got := v_got + cardinality(p_ids);
          -- Fewer than asked: nothing is left in these lines, but for what was too much for the slots.
          IF cardinality(p_ids) < v_part THEN
            FOREACH v_part IN ARRAY v_lines LOOP
              IF a_quick[v_part] OR p_slow < v_free THEN
                a_left[v_part] := false;
              END IF;
            END LOOP;
          END IF;
          v_free := v_free - p_slow;
        END LOOP;
        v_most := v_most - v_got;
        -- A visit is charged at every contested name. A lane alone is visited for longer than a batch;
        -- time goes on with it, or whoever comes next would have that visit's length as credit.
        IF v_turns AND v_got > 0 THEN
          v_cost := c_unit / t_weights[v_lane];
          v_clock := greatest((extract(epoch FROM clock_timestamp()) * 1000000)::int8, v_last + 1);
          t_visited[v_lane] := true;
          FOR j IN 1..k LOOP
            IF n_open[j] THEN
              v_part := (v_lane - 1) * k + j;
              v_start := greatest(f_finish[v_part], n_nows[j]);
              f_finish[v_part] := v_start + v_got * v_cost;
              f_visited[v_part] := v_clock;
              n_nows[j] := greatest(n_nows[j] + v_lag, v_start, f_finish[v_part] - c_batch * v_cost);
            END IF;
          END LOOP;
        END IF;
      END LOOP;
      IF v_turns THEN
        PERFORM jobs.charge(p_queue, t_tenants, t_visited, n_names, n_before, n_nows, f_finish, f_visited);
        FOR i IN 1..n LOOP
          a_finish[l_at[i]] := f_finish[(l_lane[i] - 1) * k + l_name[i]];
          a_visited[l_at[i]] := f_visited[(l_lane[i] - 1) * k + l_name[i]];
        END LOOP;
      END IF;
    END LOOP;
    EXIT WHEN v_looked;
  END LOOP;
  IF cardinality(v_ids) > 0 THEN
    INSERT INTO jobs.taken (nonce, until, ids, tenants)
    VALUES (p_nonce, v_now + p_lease, v_ids, v_tenants);
    IF cardinality(v_started_ids) > 0 THEN
      PERFORM jobs.free_keys(v_started_ids, v_started_tenants);
    END IF;
  END IF;
  IF cardinality(v_ids) < p_most THEN
    SELECT min(x.run_at) INTO v_due FROM unnest(p_names) AS s(name)
    CROSS JOIN LATERAL (
      SELECT v.run_at FROM jobs.live v
      WHERE v.state = 0 AND v.queue = p_queue AND v.name = s.name
      ORDER BY v.run_at LIMIT 1) x;
  END IF;
  RETURN NEXT ROW(0, v_took, v_looked::int4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, v_now, v_due,
    NULL, NULL, NULL, NULL, NULL, v_since, NULL, NULL, NULL)::jobs.answer;
  IF cardinality(v_ids) > 0 THEN
    RETURN QUERY SELECT * FROM jobs.deliver(v_ids, v_tenants, p_nonce);
  END IF;
  RETURN QUERY
    SELECT 2::int2, NULL::int4, s.has::int4::int2, NULL::int2, NULL::text, s.tenant, s.id, s.name,
      s.suspect, s.rank, s.due, s.finish, NULL::int4, NULL::text, NULL::text, NULL::bytea, NULL::int4,
      s.visited, NULL::text, NULL::int2, NULL::text
    FROM unnest(a_names, a_suspects, a_tenants, a_ranks, a_dues, a_ids, a_left, a_finish, a_visited)
      AS s(name, suspect, tenant, rank, due, id, has, finish, visited)
    WHERE s.name IS NOT NULL;
  IF v_turns THEN
    RETURN QUERY
      SELECT 4::int2, NULL::int4, NULL::int2, NULL::int2, NULL::text, NULL::text, NULL::uuid, b.name,
        NULL::bool, NULL::int2, NULL::int8, b.now, NULL::int4, NULL::text, NULL::text, NULL::bytea,
        NULL::int4, NULL::int8, NULL::text, NULL::int2, NULL::text
      FROM unnest(n_names, n_nows) AS b(name, now);
  END IF;
END $$;
