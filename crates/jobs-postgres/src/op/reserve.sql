-- Takes due jobs under a lease, in one call. docs/ARCHITECTURE.md says who is next and why.
-- line_*: lines that the handle knows to have work, each from a place in its order on, so that what was
-- taken before is not walked over again; `p_more` says that it knows others. `p_look` asks to look for
-- lines first, on from look_*, at most `look_most`: 1 for others than those, 2 for all, which also finds
-- what lies before the places. `p_since`: no scheduled job is due before; `p_after`:
-- the tenant after which a crowd that came due at once goes on.
-- One tenant's one line is served without turns, plans and arrays: its deliveries come first, and the handle
-- reads from them how far the line went.
-- Answers a head (`at` how long it looked, in microseconds; `code` 1 the next call goes on looking at once;
-- `name`, `suspect` and `tenant` where it ended for its bound;
-- `run_at` now, `fence` when the next scheduled job is due, `timeout` until when all that was due is in
-- line, `key` where a crowd goes on), deliveries in order, lines (`code` 1 with work from that place on, 0
-- without; `fence` and `timeout` the lane's finish and last visit there, where they were read), and the
-- virtual nows of names (part 4).
CREATE FUNCTION jobs.reserve(
  p_queue text, p_names text[], p_quick text[], p_slots int4, p_most int4, p_lease int8,
  p_nonce int8, p_worker text, p_look int4, look_name text, look_suspect bool, look_tenant text,
  look_most int4, p_since int8, p_after text, p_more bool,
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
  c_looks CONSTANT int4 := 8;
  v_now int8;
  v_due int8;
  v_most int4 := p_most;      -- what may still be taken
  v_free int4 := p_slots;     -- of anything: the rest must be fit to be held ahead (R7)
  v_ids uuid[];
  v_tenants text[];
  v_answers jobs.answer[];
  v_lines jobs.line[];
  v_found jobs.line[];
  v_look record;
  v_last jobs.line;
  v_looks int4 := 0;
  v_around bool := false;     -- all that there is was looked at, by this call and the one before
  v_goes_on bool := false;    -- it was not, and what was wanted is not filled
  v_began timestamptz;
  v_look_took int4;
  v_since int8;
  v_paused bool;
  v_lone jobs.line;
  v_wanted int4 := 0;
  v_count int4;
  v_several bool;
  v_others bool := p_more OR (p_look > 0 AND look_name > '');
  v_scale int4 := 1;          -- so many times what is wanted has to be asked for
  v_counts int4[];
  t record;
  v_plan record;
  v_took record;
  v_names text[];
  v_nows int8[];
  v_finish int8[];            -- of lines, the turns as they were read
  v_visited int8[];
  v_at int4;
  v_lane int4;
  v_name int4;
BEGIN
  -- Two calls with one nonce, as of a client that gave up on the first: one after the other.
  PERFORM pg_advisory_xact_lock(p_nonce);
  SELECT s.ids, s.tenants INTO v_ids, v_tenants FROM jobs.taken s WHERE s.nonce = p_nonce;
  IF FOUND THEN
    RETURN QUERY SELECT * FROM jobs.take_again(v_ids, v_tenants, p_nonce, p_lease);
    RETURN;
  END IF;
  v_ids := '{}';
  v_tenants := '{}';
  v_now := jobs.now_ms();
  v_paused := coalesce((SELECT q.paused_until > v_now FROM jobs.queue q WHERE q.queue = p_queue), false);
  IF v_paused THEN
    v_most := 0;
  ELSE
    -- What was committed later than it was due is looked for with the lines; what even then is not, a
    -- sweep finds.
    v_since := CASE WHEN p_look > 1 THEN p_since - 60000 ELSE p_since END;
    -- Mostly none: a seek a name, and not the statements of a promotion (2 of 60 us a job).
    IF EXISTS (SELECT FROM unnest(p_names) AS s(name) CROSS JOIN LATERAL (
        SELECT FROM jobs.live v
        WHERE v.state = 0 AND v.queue = p_queue AND v.name = s.name AND v.run_at >= v_since
          AND v.run_at <= v_now
        ORDER BY v.run_at LIMIT 1) x) THEN
      SELECT x.p_after, x.p_lines, CASE WHEN x.p_more THEN p_since ELSE v_now END
      INTO p_after, v_found, p_since
      FROM jobs.promote(p_queue, p_names, v_since, v_now, p_after) x;
    ELSE
      p_since := v_now;
    END IF;
    v_lines := jobs.known(p_queue, v_now, p_quick, v_found, line_names, line_suspects, line_tenants,
      line_ranks, line_dues, line_ids);
    IF p_look > 0 THEN
      v_began := clock_timestamp();
      SELECT * INTO v_look FROM jobs.look(p_queue, p_names, look_name, look_suspect, look_tenant,
        look_most, v_now, p_quick, CASE p_look WHEN 1 THEN v_lines END);
      v_found := v_look.lines;
      v_last := v_look.ended;
      v_lines := jobs.known(p_queue, v_now, p_quick, v_lines || v_found, '{}', '{}', '{}', '{}', '{}', '{}');
      v_look_took := (extract(epoch FROM clock_timestamp() - v_began) * 1000000)::int4;
    END IF;
  END IF;
  v_several := p_more OR v_last.name IS NOT NULL
    OR (SELECT count(DISTINCT l.tenant) > 1 FROM unnest(v_lines) AS l WHERE l.has);
  -- One tenant's one line needs no turns: whoever else is at it takes other jobs.
  IF (v_several OR cardinality(v_lines) > 1) AND NOT jobs.lock_turns(p_queue) THEN
    v_most := 0;
    v_due := v_now;
  END IF;
  IF v_most > 0 AND NOT v_several AND cardinality(v_lines) = 1 AND v_lines[1].has THEN
    v_lone := v_lines[1];
    v_wanted := CASE WHEN v_lone.quick THEN v_most ELSE least(v_most, v_free) END;
  END IF;
  IF v_wanted > 0 THEN
    RETURN QUERY
      WITH c AS MATERIALIZED (
        SELECT v.ctid AS place, v.keyed FROM jobs.live v
        WHERE v.state = 1 AND v.queue = p_queue AND v.name = v_lone.name AND v.suspect = v_lone.suspect
          AND v.tenant = v_lone.tenant AND (v.rank, v.run_at, v.id) >= (v_lone.rank, v_lone.due, v_lone.id)
        ORDER BY v.rank, v.run_at, v.id LIMIT v_wanted
        FOR UPDATE SKIP LOCKED
      ), u AS (
        -- By where the row is, which its lock keeps there.
        UPDATE jobs.live v SET state = 2, attempt = v.attempt + 1, fence = v.fence + 1,
          nonce = p_nonce, outcome = NULL, lease_until = v_now + p_lease, started_at = v_now,
          renewed_at = v_now, worker = p_worker, keyed = CASE v.keyed WHEN 2 THEN 0 ELSE v.keyed END
        FROM c WHERE v.ctid = c.place
        RETURNING v.id, v.tenant, v.rank, v.run_at, v.fence, v.attempt, c.keyed
      ), n AS (
        INSERT INTO jobs.taken (nonce, until, ids, tenants)
        SELECT p_nonce, v_now + p_lease, array_agg(u.id), array_agg(u.tenant) FROM u HAVING count(*) > 0
      ), k AS MATERIALIZED (
        SELECT jobs.free_keys(array_agg(u.id), array_agg(u.tenant)) IS NULL AS freed
        FROM u WHERE u.keyed = 2 HAVING count(*) > 0
      )
      SELECT 1::int2, NULL::int4, (SELECT k.freed FROM k)::int4::int2, NULL::int2, p_queue, u.tenant, u.id,
        v_lone.name::text, v_lone.suspect, u.rank, u.run_at, u.fence, u.attempt, b.action, b.authorized_by,
        b.payload, b.max_attempts, b.timeout, b.key, b.key_scope, b.metadata
      FROM u JOIN jobs.body b ON b.id = u.id AND b.tenant = u.tenant;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    v_lines[1].has := v_count >= v_wanted;
    v_most := v_most - v_count;
    IF NOT v_lone.quick THEN
      v_free := v_free - v_count;
    END IF;
  END IF;
  WHILE v_most > 0 LOOP
    IF v_several THEN
      SELECT * INTO t FROM jobs.turns(p_queue, v_lines, v_finish, v_visited, v_free > 0,
        v_scale * v_most / c_batch + 2);
      v_finish := t.read_finish;
      v_visited := t.read_visited;
    ELSE
      SELECT array_agg(l.tenant) AS tenants, array_agg(l.at::int4) AS line_at, array_agg(1) AS line_lane
      INTO t FROM unnest(v_lines) WITH ORDINALITY
        AS l(name, suspect, tenant, rank, due, id, has, quick, at)
      WHERE l.has AND (v_free > 0 OR l.quick);
    END IF;
    IF t.tenants IS NULL THEN
      -- Not filled by what was found: on to where the look ended, and once around, where it began in the middle or the handle knows
      -- of others: those that it sent may all have been empty.
      v_looks := v_looks + 1;
      IF v_last.name IS NULL AND v_others THEN
        v_last.name := '';
        v_last.suspect := false;
        v_last.tenant := '';
        v_others := false;
        v_around := p_look > 0;
      END IF;
      EXIT WHEN v_last.name IS NULL;
      IF v_looks > c_looks THEN
        v_goes_on := NOT v_around;
        EXIT;
      END IF;
      SELECT * INTO v_look FROM jobs.look(p_queue, p_names, v_last.name, v_last.suspect, v_last.tenant,
        look_most, v_now, p_quick, CASE p_look WHEN 1 THEN v_lines END);
      v_found := v_look.lines;
      v_last := v_look.ended;
      v_lines := ARRAY(SELECT l FROM unnest(v_lines) AS l
        WHERE (l.name, l.suspect, l.tenant) NOT IN (SELECT f.name, f.suspect, f.tenant FROM unnest(v_found) AS f))
        || v_found;
      v_finish := NULL;
      v_visited := NULL;
      -- There may be others than the one lane that was alone.
      v_several := v_several OR v_last.name IS NOT NULL
        OR (SELECT count(DISTINCT l.tenant) > 1 FROM unnest(v_lines) AS l WHERE l.has);
      IF v_several AND NOT jobs.lock_turns(p_queue) THEN
        v_due := v_now;
        EXIT;
      END IF;
      CONTINUE;
    END IF;
    IF v_several THEN
      SELECT * INTO v_plan FROM jobs.share(t.finish, t.visited, t.nows, t.open, t.weights,
        v_scale * v_most, p_more OR v_last.name IS NOT NULL OR t.lanes > 1, NULL);
      v_counts := v_plan.counts;
    ELSE
      v_counts := ARRAY[v_most];
    END IF;
    SELECT * INTO v_took FROM jobs.take(p_queue, t.line_at, t.line_lane, v_counts, v_free, v_most,
      p_nonce, v_now, p_lease, p_worker, v_lines);
    v_lines := v_took.lines;
    IF v_took.ids IS NOT NULL THEN
      v_ids := v_ids || v_took.ids;
      v_tenants := v_tenants || v_took.tenants;
      v_answers := v_answers || v_took.answers;
      IF v_several THEN
        SELECT * INTO v_plan FROM jobs.share(t.finish, t.visited, t.nows, t.open, t.weights,
          cardinality(v_took.ids), p_more OR v_last.name IS NOT NULL OR t.lanes > 1, v_took.counts);
        PERFORM jobs.charge(p_queue, t.tenants, v_took.counts, t.names, t.nows, v_plan.nows,
          v_plan.finish, v_plan.visited);
        FOR i IN 1..cardinality(t.line_at) LOOP
          v_at := t.line_at[i];
          v_lane := t.line_lane[i];
          CONTINUE WHEN v_took.counts[v_lane] = 0;
          v_name := array_position(t.names, v_lines[v_at].name);
          v_finish[v_at] := v_plan.finish[v_lane][v_name];
          v_visited[v_at] := v_plan.visited[v_lane][v_name];
        END LOOP;
        v_names := t.names;
        v_nows := v_plan.nows;
      END IF;
      IF v_took.started_ids IS NOT NULL THEN
        PERFORM jobs.free_keys(v_took.started_ids, v_took.started_tenants);
      END IF;
    END IF;
    v_scale := least(c_batch, v_scale * v_most / greatest(cardinality(v_took.ids), 1));
    v_most := v_most - coalesce(cardinality(v_took.ids), 0);
    v_free := v_free - v_took.slow;
  END LOOP;
  IF v_answers IS NOT NULL THEN
    INSERT INTO jobs.taken AS s (nonce, until, ids, tenants)
    VALUES (p_nonce, v_now + p_lease, v_ids, v_tenants)
    ON CONFLICT (nonce) DO UPDATE SET ids = s.ids || excluded.ids, tenants = s.tenants || excluded.tenants;
  END IF;
  IF v_goes_on THEN
    v_due := v_now;
  END IF;
  -- Of a paused queue what is due is no reason to come back.
  IF v_most > 0 AND v_due IS NULL AND NOT v_paused THEN
    SELECT min(x.run_at) INTO v_due FROM unnest(p_names) AS s(name)
    CROSS JOIN LATERAL (
      SELECT v.run_at FROM jobs.live v
      WHERE v.state = 0 AND v.queue = p_queue AND v.name = s.name AND v.run_at >= p_since
      ORDER BY v.run_at LIMIT 1) x;
  END IF;
  RETURN NEXT ROW(0, v_look_took, v_goes_on::int4, NULL, NULL, v_last.tenant, NULL, v_last.name, v_last.suspect, NULL,
    v_now, v_due, NULL, NULL, NULL, NULL, NULL, p_since, p_after, NULL, NULL)::jobs.answer;
  IF v_answers IS NOT NULL THEN
    RETURN QUERY SELECT * FROM unnest(v_answers);
  END IF;
  RETURN QUERY
    SELECT 2::int2, NULL::int4, l.has::int4::int2, NULL::int2, NULL::text, l.tenant, l.id, l.name,
      l.suspect, l.rank, l.due, l.finish, NULL::int4, NULL::text, NULL::text, NULL::bytea, NULL::int4,
      l.visited, NULL::text, NULL::int2, NULL::text
    FROM unnest(v_lines, v_finish, v_visited)
      AS l(name, suspect, tenant, rank, due, id, has, quick, finish, visited);
  IF v_nows IS NOT NULL THEN
    RETURN QUERY
      SELECT 4::int2, NULL::int4, NULL::int2, NULL::int2, NULL::text, NULL::text, NULL::uuid, b.name,
        NULL::bool, NULL::int2, NULL::int8, b.now, NULL::int4, NULL::text, NULL::text, NULL::bytea,
        NULL::int4, NULL::int8, NULL::text, NULL::int2, NULL::text
      FROM unnest(v_names, v_nows) AS b(name, now);
  END IF;
END $$;

-- Lines as the handle knows them and as they were found, each from the first place of both on. Those of
-- paused lanes have nothing, which a look knows already.
CREATE FUNCTION jobs.known(
  p_queue text, p_now int8, p_quick text[], p_found jobs.line[],
  line_names text[], line_suspects bool[], line_tenants text[], line_ranks int2[], line_dues int8[],
  line_ids uuid[]
) RETURNS jobs.line[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    WITH k AS (
      SELECT s.*, NULL::bool AS has
      FROM unnest(line_names, line_suspects, line_tenants, line_ranks, line_dues, line_ids)
        AS s(name, suspect, tenant, rank, due, id)
      UNION ALL
      SELECT f.name, f.suspect, f.tenant, f.rank, f.due, f.id, f.has FROM unnest(p_found) AS f
    ), d AS (
      SELECT DISTINCT ON (k.name, k.suspect, k.tenant) k.* FROM k
      ORDER BY k.name, k.suspect, k.tenant, k.rank, k.due, k.id
    )
    SELECT coalesce(array_agg(ROW(d.name, d.suspect, d.tenant, d.rank, d.due, d.id,
      coalesce(d.has, NOT EXISTS (SELECT 1 FROM jobs.lane a
        WHERE a.queue = p_queue AND a.tenant = d.tenant AND a.paused_until > p_now)),
      NOT d.suspect AND d.name = ANY (p_quick))::jobs.line), '{}') FROM d);
END $$;

-- Makes the turns of a queue one sequence for all, until the commit. False when others keep them for long.
-- Not an error: the settlements that came in the same call stand.
CREATE FUNCTION jobs.lock_turns(p_queue text) RETURNS bool LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF pg_try_advisory_xact_lock(hashtext('jobs.turn'), hashtext(p_queue)) THEN
    RETURN true;
  END IF;
  BEGIN
    -- Apart from what a call waits for a key.
    PERFORM set_config('lock_timeout', '1s', true);
    PERFORM pg_advisory_xact_lock(hashtext('jobs.turn'), hashtext(p_queue));
    RETURN true;
  EXCEPTION WHEN lock_not_available THEN
    RETURN false;
  END;
END $$;
