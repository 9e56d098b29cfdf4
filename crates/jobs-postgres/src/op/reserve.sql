-- Takes due jobs under a lease, in one call. docs/ARCHITECTURE.md says who is next and why.
-- lines: what the handle knows of lines with work, each from a place in its order on, so that what was
-- taken before is not walked over again; `look` asks to look for all lines first, which also happens
-- when they do not fill the wish, or a job came due that was not before `since`. Answers a head (`code` 1 when it looked, `run_at` now, `fence` when
-- the next scheduled job is due, `timeout` until when all that was due is in line), deliveries in order, and lines (`code` 1 with work from that place
-- on, 0 without).
CREATE FUNCTION jobs.reserve(
  p_queue text, p_names text[], p_quick text[], p_slots int4, p_most int4, p_lease int8,
  p_nonce int8, p_worker text, p_look bool, p_since int8,
  line_names text[], line_suspects bool[], line_tenants text[], line_ranks int2[], line_dues int8[],
  line_ids uuid[]
) RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
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
  v_look bool := p_look;
  v_looked bool := false;
  v_since int8;
  v_locked bool := false;
  v_until int8;
  v_queue_weight int4;
  -- lines
  n int4;
  l_names text[] := line_names;
  l_suspects bool[] := line_suspects;
  l_tenants text[] := line_tenants;
  l_ranks int2[] := line_ranks;
  l_dues int8[] := line_dues;
  l_ids uuid[] := line_ids;
  l_left bool[];
  l_quick bool[];
  l_lane int4[];
  l_name int4[];
  -- lanes and the names that somebody has work of
  t_tenants text[];
  t_weights int4[];
  t_visited bool[];
  n_names text[];
  n_nows int8[];
  n_first int8[];
  n_open bool[];
  k int4;
  f_finish int8[];            -- by lane and name
  f_visited int8[];
  v_lane int4;
  v_key int8;
  v_seen int8;
  v_lag int8;
  v_last int8;
  v_several bool;
  v_other int4;
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
  v_started_ids uuid[] := '{}';
  v_started_tenants text[] := '{}';
  v_start int8;
  v_cost int8;
  v_clock int8;
  v_contested bool := false;
BEGIN
  -- Two calls with one nonce, as of a client that gave up on the first: one after the other.
  PERFORM pg_advisory_xact_lock(p_nonce);
  SELECT t.ids, t.tenants INTO v_ids, v_tenants FROM jobs.taken t WHERE t.nonce = p_nonce;
  IF FOUND THEN
    -- The lease counts from this call, as the worker's own clock does.
    v_now := jobs.now_ms();
    UPDATE jobs.live v SET renewed_at = v_now, lease_until = v_now + p_lease
    FROM unnest(v_ids, v_tenants) AS s(id, tenant)
    WHERE v.id = s.id AND v.tenant = s.tenant AND v.state = 2 AND v.nonce = p_nonce;
    UPDATE jobs.taken SET until = v_now + p_lease WHERE nonce = p_nonce;
    RETURN QUERY SELECT * FROM jobs.deliver(v_ids, v_tenants, p_nonce);
    RETURN;
  END IF;
  v_ids := '{}';
  v_tenants := '{}';
  SELECT q.paused_until, q.weight INTO v_until, v_queue_weight FROM jobs.queue q WHERE q.queue = p_queue;
  v_now := jobs.now_ms();
  IF v_until > v_now THEN
    v_most := 0;
    l_names := '{}';
  END IF;
  IF v_most > 0 AND NOT v_look THEN
    SELECT x.count > 0, CASE WHEN x.more THEN p_since ELSE v_now END INTO v_look, v_since
    FROM jobs.promote(p_queue, p_names, p_since, v_now) x;
  END IF;
  WHILE v_most > 0 LOOP
    IF v_look THEN
      v_looked := true;
      SELECT CASE WHEN x.more THEN 0 ELSE v_now END INTO v_since
      FROM jobs.promote(p_queue, p_names, 0, v_now) x;
      SELECT coalesce(array_agg(x.name), '{}'), coalesce(array_agg(x.suspect), '{}'),
        coalesce(array_agg(x.tenant), '{}'), coalesce(array_agg(x.rank), '{}'),
        coalesce(array_agg(x.run_at), '{}'), coalesce(array_agg(x.id), '{}')
      INTO l_names, l_suspects, l_tenants, l_ranks, l_dues, l_ids
      FROM jobs.lines(p_queue, p_names) x;
    END IF;
    v_look := true;
    n := cardinality(l_names);
    -- Lanes without the paused ones, and names, numbered.
    SELECT coalesce(array_agg(x.tenant), '{}'), coalesce(array_agg(x.weight), '{}')
    INTO t_tenants, t_weights
    FROM (SELECT DISTINCT t.tenant FROM unnest(l_tenants) AS t(tenant)) d
    CROSS JOIN LATERAL (
      SELECT d.tenant, coalesce(a.weight, v_queue_weight, 1) AS weight
      FROM (SELECT 1) one LEFT JOIN jobs.lane a ON a.queue = p_queue AND a.tenant = d.tenant
      WHERE a.paused_until IS NULL OR a.paused_until <= v_now) x;
    SELECT coalesce(array_agg(DISTINCT x), '{}') INTO n_names FROM unnest(l_names) AS x;
    k := cardinality(n_names);
    SELECT array_agg(array_position(t_tenants, s.tenant) ORDER BY s.at),
      array_agg(array_position(n_names, s.name) ORDER BY s.at),
      array_agg(NOT s.suspect AND s.name = ANY (p_quick) ORDER BY s.at),
      array_agg(array_position(t_tenants, s.tenant) IS NOT NULL ORDER BY s.at)
    INTO l_lane, l_name, l_quick, l_left
    FROM unnest(l_names, l_suspects, l_tenants) WITH ORDINALITY AS s(name, suspect, tenant, at);
    -- One tenant's one line needs no turns: whoever else is at it takes other jobs.
    IF NOT v_locked AND (cardinality(t_tenants) > 1 OR (n > 1 AND (
      SELECT count(*) > 1 FROM (SELECT DISTINCT s.a, s.b FROM unnest(l_names, l_suspects) AS s(a, b)) x)))
    THEN
      PERFORM pg_advisory_xact_lock(hashtext('jobs.turn'), hashtext(p_queue));
      v_locked := true;
      v_now := jobs.now_ms();
    END IF;
    f_finish := NULL;
    LOOP
      -- The lane with the least lag among its names with work, then the one longest without a visit.
      v_lane := NULL;
      v_other := NULL;
      v_several := false;
      n_open := array_fill(false, ARRAY[greatest(k, 1)]);
      IF v_most > 0 THEN
        FOR i IN 1..n LOOP
          IF l_left[i] AND (v_free > 0 OR l_quick[i]) THEN
            n_open[l_name[i]] := true;
            IF v_other <> l_lane[i] THEN
              v_several := true;
            END IF;
            v_other := l_lane[i];
          END IF;
        END LOOP;
      END IF;
      EXIT WHEN v_other IS NULL;
      IF NOT v_several THEN
        v_lane := v_other;
      END IF;
      IF (v_several OR f_finish IS NOT NULL) THEN
        IF f_finish IS NULL THEN
          -- What each lane is charged and each name's virtual now: the newest of each.
          SELECT array_agg(coalesce(x.finish, 0) ORDER BY a.at, b.at),
            array_agg(coalesce(x.visited, 0) ORDER BY a.at, b.at)
          INTO f_finish, f_visited
          FROM unnest(t_tenants) WITH ORDINALITY AS a(tenant, at)
          CROSS JOIN unnest(n_names) WITH ORDINALITY AS b(name, at)
          LEFT JOIN LATERAL (
            SELECT u.finish, u.visited FROM jobs.turn u
            WHERE u.queue = p_queue AND u.name = b.name AND u.tenant = a.tenant
            ORDER BY u.finish DESC LIMIT 1) x ON true;
          SELECT array_agg(coalesce(x.finish, 0) ORDER BY b.at) INTO n_nows
          FROM unnest(n_names) WITH ORDINALITY AS b(name, at)
          LEFT JOIN LATERAL (
            SELECT u.finish FROM jobs.turn u
            WHERE u.queue = p_queue AND u.name = b.name AND u.tenant = ''
            ORDER BY u.finish DESC LIMIT 1) x ON true;
          n_first := n_nows;
          t_visited := array_fill(false, ARRAY[cardinality(t_tenants)]);
          v_contested := true;
        END IF;
        v_lane := NULL;
        FOR i IN 1..n LOOP
          IF l_left[i] AND (v_free > 0 OR l_quick[i]) THEN
            v_part := (l_lane[i] - 1) * k + l_name[i];
            v_key := greatest(f_finish[v_part] - n_nows[l_name[i]], 0);
            v_seen := f_visited[v_part];
            IF v_lane IS NULL OR v_key < v_lag OR (v_key = v_lag AND v_seen < v_last) THEN
              v_lane := l_lane[i];
              v_lag := v_key;
              v_last := v_seen;
            END IF;
          END IF;
        END LOOP;
      END IF;
      v_visit := CASE WHEN v_several THEN least(c_batch, v_most) ELSE v_most END;
      v_got := 0;
      -- The lane's jobs by (rank, due, id), rank by rank.
      WHILE v_got < v_visit LOOP
        v_rank := NULL;
        v_lines := '{}';
        FOR i IN 1..n LOOP
          IF l_lane[i] = v_lane AND l_left[i] AND (v_free > 0 OR l_quick[i]) THEN
            IF v_rank IS NULL OR l_ranks[i] < v_rank THEN
              v_rank := l_ranks[i];
              v_lines := ARRAY[i];
            ELSIF l_ranks[i] = v_rank THEN
              v_lines := v_lines || i;
            END IF;
          END IF;
        END LOOP;
        EXIT WHEN v_rank IS NULL;
        v_part := v_visit - v_got;
        WITH g AS MATERIALIZED (
          SELECT s.i, l_names[s.i] AS name, l_suspects[s.i] AS suspect, l_dues[s.i] AS due,
            l_ids[s.i] AS id, l_quick[s.i] AS quick
          FROM unnest(v_lines) AS s(i)
        ), c AS MATERIALIZED (
          SELECT x.id, x.run_at, x.keyed, g.i, g.quick FROM g
          CROSS JOIN LATERAL (
            SELECT v.id, v.run_at, v.keyed FROM jobs.live v
            WHERE v.state = 1 AND v.queue = p_queue AND v.name = g.name AND v.suspect = g.suspect
              AND v.tenant = t_tenants[v_lane] AND v.rank = v_rank AND (v.run_at, v.id) >= (g.due, g.id)
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
            renewed_at = v_now, worker = p_worker, keyed = CASE v.keyed WHEN 2 THEN 0 ELSE v.keyed END
          FROM p WHERE v.id = p.id AND v.tenant = t_tenants[v_lane]
        )
        SELECT coalesce(array_agg(p.id ORDER BY p.at), '{}'), coalesce(array_agg(p.i ORDER BY p.at), '{}'),
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
          l_dues[p_lines[j]] := p_dues[j];
          l_ids[p_lines[j]] := p_ids[j];
        END LOOP;
        v_got := v_got + cardinality(p_ids);
        -- Fewer than asked: nothing is left in these lines, but for what was too much for the slots.
        IF cardinality(p_ids) < v_part THEN
          FOREACH v_part IN ARRAY v_lines LOOP
            IF l_quick[v_part] OR p_slow < v_free THEN
              l_left[v_part] := false;
            END IF;
          END LOOP;
        END IF;
        v_free := v_free - p_slow;
      END LOOP;
      v_most := v_most - v_got;
      -- A visit is charged at every contested name. A lane alone is visited for longer than a batch;
      -- time goes on with it, or whoever comes next would have that visit's length as credit.
      IF f_finish IS NOT NULL AND v_got > 0 THEN
        v_cost := c_unit / t_weights[v_lane];
        v_clock := (extract(epoch FROM clock_timestamp()) * 1000000)::int8;
        IF v_clock <= v_last THEN
          v_clock := v_last + 1;
        END IF;
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
    IF v_contested AND f_finish IS NOT NULL THEN
      PERFORM jobs.charge(p_queue, t_tenants, t_visited, n_names, n_first, n_nows, f_finish, f_visited);
    END IF;
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
  RETURN NEXT ROW(0, NULL, v_looked::int4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, v_now, v_due,
    NULL, NULL, NULL, NULL, NULL, v_since, NULL, NULL, NULL)::jobs.answer;
  IF cardinality(v_ids) > 0 THEN
    RETURN QUERY SELECT * FROM jobs.deliver(v_ids, v_tenants, p_nonce);
  END IF;
  RETURN QUERY
    SELECT 2::int2, NULL::int4, s.has::int4::int2, NULL::int2, NULL::text, s.tenant, s.id, s.name,
      s.suspect, s.rank, s.due, NULL::int8, NULL::int4, NULL::text, NULL::text, NULL::bytea, NULL::int4,
      NULL::int8, NULL::text, NULL::int2, NULL::text
    FROM unnest(l_names, l_suspects, l_tenants, l_ranks, l_dues, l_ids, l_left)
      AS s(name, suspect, tenant, rank, due, id, has)
    WHERE s.name IS NOT NULL;
END $$;

-- What is held under a nonce, in the order asked.
CREATE FUNCTION jobs.deliver(p_ids uuid[], p_tenants text[], p_nonce int8)
RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT 1::int2, NULL::int4, NULL::int2, NULL::int2, v.queue, v.tenant, v.id, v.name, v.suspect,
      v.rank, v.run_at, v.fence, v.attempt, b.action, b.authorized_by, b.payload, b.max_attempts,
      b.timeout, b.key, b.key_scope, b.metadata
    FROM unnest(p_ids, p_tenants) WITH ORDINALITY AS s(id, tenant, at)
    JOIN jobs.live v ON v.id = s.id AND v.tenant = s.tenant AND v.state = 2 AND v.nonce = p_nonce
    JOIN jobs.body b ON b.id = v.id AND b.tenant = v.tenant
    ORDER BY s.at;
END $$;

-- Settles, then reserves.
CREATE FUNCTION jobs.exchange(
  tenants text[], ids uuid[], fences int8[], nonces int8[], kinds int2[], delays int8[], causes text[],
  p_queue text, p_names text[], p_quick text[], p_slots int4, p_most int4, p_lease int8,
  p_nonce int8, p_worker text, p_look bool, p_since int8,
  line_names text[], line_suspects bool[], line_tenants text[], line_ranks int2[], line_dues int8[],
  line_ids uuid[]
) RETURNS SETOF jobs.answer LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT * FROM jobs.settle(tenants, ids, fences, nonces, kinds, delays, causes);
  RETURN QUERY SELECT * FROM jobs.reserve(p_queue, p_names, p_quick, p_slots, p_most, p_lease, p_nonce,
    p_worker, p_look, p_since, line_names, line_suspects, line_tenants, line_ranks, line_dues, line_ids);
END $$;
