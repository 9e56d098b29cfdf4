-- One bounded round: takes back what was silent, promotes what came due, prunes the history of some
-- queues from p_after on, downwards. Answers a head (`at` promoted, `code` is there more to do, `attempt`
-- pruned, `queue` the next round's p_after) and a row of part 1 for each job that was taken back, with
-- its new `state`.
-- Everything that it looks for is found by an instant, from a floor on before which nothing is left:
-- under somebody's long snapshot the entries of what was removed stay, and walking over them would
-- cost more with each sweep. How many jobs stay by number is looked up once a minute.
CREATE FUNCTION jobs.sweep(p_batch int4, p_done int8, p_keep int8, p_cancelled int8, p_after text)
RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  c_stub CONSTANT int8 := 120000;
  c_few CONSTANT int8 := 1000;   -- counted at each sweep
  c_queues CONSTANT int4 := 64;  -- whose history is looked at
  c_taken CONSTANT int8 := 20000;
  c_hour CONSTANT int8 := 3600000;
  v_now int8 := jobs.now_ms();
  v_ids uuid[];
  v_tenants text[];
  v_ended int8[];
  v_lost jobs.answer[];
  v_silent int4;
  v_promoted int4 := 0;
  v_pruned int4 := 0;
  v_some int4;
  v_more bool := false;
  v_long bool;
  v_queue text := p_after;
  v_queues int4 := 0;
  v_seen xid8;
  v_floor int8;
  v_cut int8;
  v_ties int8;
BEGIN
  -- One sweep at a time writes floors; what it sees is decided before it looks.
  IF pg_try_advisory_xact_lock(hashtext('jobs.swept'), 0) THEN
    v_seen := pg_snapshot_xmin(pg_current_snapshot());
  END IF;
  v_floor := jobs.floor_of('lease', '', v_now);
  WITH e AS MATERIALIZED (
    SELECT v.* FROM jobs.live v
    WHERE v.state = 2 AND v.lease_slot >= v_floor / 15000 AND v.lease_slot <= v_now / 15000
      AND v.lease_until <= v_now
    LIMIT p_batch FOR UPDATE SKIP LOCKED
  ), w AS MATERIALIZED (
    SELECT v.* FROM jobs.live v
    WHERE v.state = 2 AND v.lease_slot > (v_now + c_hour) / 15000
      AND jobs.is_held(v.lease_until, v.renewed_at, v_now) IS NOT true
    LIMIT p_batch FOR UPDATE SKIP LOCKED
  ), m AS MATERIALIZED (
    SELECT h.*, (CASE WHEN h.cancel THEN 5 WHEN h.attempt < h.max_attempts THEN 1 ELSE 3 END)::int2
      AS to_state FROM (SELECT * FROM e UNION ALL SELECT * FROM w) h
  ), r AS (
    INSERT INTO jobs.attempt (id, tenant, fence, number, worker, started_at, ended_at, outcome, cause)
    SELECT m.id, m.tenant, m.fence, m.attempt, coalesce(m.worker, ''), coalesce(m.started_at, v_now),
      v_now, 6, 'the lease ran out without a renewal' FROM m
    ON CONFLICT DO NOTHING
  ), c AS (
    INSERT INTO jobs.minute (at, queue, tenant, finished, failed)
    SELECT v_now - v_now % 60000, m.queue, m.tenant, 0, count(*) FROM m GROUP BY m.queue, m.tenant
  ), d AS (
    INSERT INTO jobs.done (id, tenant, queue, state, run_at, ended_at, attempt, fence, nonce, outcome,
      started_at, worker, snoozes, releases, verb, verb_by, verb_at, suspect)
    SELECT m.id, m.tenant, m.queue, 5, m.run_at, v_now, m.attempt, m.fence, 0, NULL, NULL, NULL,
      m.snoozes, m.releases, m.verb, m.verb_by, m.verb_at, true
    FROM m WHERE m.to_state = 5
  ), g AS (
    DELETE FROM jobs.live v USING m WHERE v.id = m.id AND v.tenant = m.tenant AND m.to_state = 5
  ), b AS (
    UPDATE jobs.live v SET state = m.to_state, suspect = true, nonce = 0, outcome = NULL,
      cancel = false, lease_until = NULL, started_at = NULL, renewed_at = NULL, worker = NULL
    FROM m WHERE v.id = m.id AND v.tenant = m.tenant AND m.to_state <> 5
  )
  SELECT count(*), array_agg(m.id), array_agg(m.tenant), bool_or(m.fence > 100),
    array_agg(ROW(1, NULL, NULL, m.to_state, m.queue, m.tenant, m.id, m.name, true, m.rank, m.run_at,
      m.fence, m.attempt, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::jobs.answer)
  INTO v_silent, v_ids, v_tenants, v_long, v_lost FROM m;
  v_more := v_silent >= p_batch;
  PERFORM jobs.raise_floor('lease', '', CASE WHEN NOT v_more THEN v_now END, v_now, v_seen);
  IF v_silent > 0 THEN
    -- A cancelled one holds its key no more.
    PERFORM jobs.free_ended_keys(v_ids, v_tenants);
    IF v_long THEN
      PERFORM jobs.trim_attempts(v_ids, v_tenants);
    END IF;
  END IF;

  -- Due jobs of all queues, the longest due first.
  v_floor := jobs.floor_of('due', '', v_now);
  WITH d AS MATERIALIZED (
    SELECT v.id, v.tenant FROM jobs.live v
    WHERE v.state = 0 AND v.run_at >= v_floor AND v.run_at <= v_now
    ORDER BY v.run_at LIMIT p_batch FOR UPDATE SKIP LOCKED
  ), u AS (
    UPDATE jobs.live v SET state = 1 FROM d WHERE v.id = d.id AND v.tenant = d.tenant
    RETURNING v.queue, v.name, v.suspect, v.tenant, v.rank, v.run_at, v.id
  )
  SELECT count(*), array_cat(v_lost, array_agg(ROW(2, NULL, NULL, NULL, u.queue, u.tenant, u.id, u.name,
    u.suspect, u.rank, u.run_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::jobs.answer))
  INTO v_promoted, v_lost FROM u;
  v_more := v_more OR v_promoted >= p_batch;
  PERFORM jobs.raise_floor('due', '', CASE WHEN v_promoted < p_batch THEN v_now END, v_now, v_seen);

  -- History by age and number, queue by queue, each found by its newest: its oldest may be dead.
  WHILE v_queues < c_queues LOOP
    IF v_pruned >= p_batch THEN
      -- The next sweep begins with this one: a space is before what any name goes on with.
      v_queue := v_queue || ' ';
      EXIT;
    END IF;
    SELECT d.queue INTO v_queue FROM jobs.done d
    WHERE d.state = 4 AND NOT d.stub AND d.queue < v_queue
    ORDER BY d.queue DESC, d.ended_at DESC LIMIT 1;
    IF NOT FOUND THEN
      v_queue := '~';
      EXIT;
    END IF;
    SELECT s.cut INTO v_cut FROM jobs.swept s
    WHERE s.what = 'done' AND s.queue = v_queue AND s.keep = p_keep AND p_keep > c_few
      AND s.cut_at > v_now - 60000 AND s.cut_at <= v_now;
    IF NOT FOUND THEN
      -- The newest of those that are too many: of those that ended with it, as many as are too many.
      v_ties := 0;
      SELECT d.ended_at INTO v_cut FROM jobs.done d
      WHERE d.state = 4 AND NOT d.stub AND d.queue = v_queue
      ORDER BY d.ended_at DESC OFFSET p_keep LIMIT 1;
      IF FOUND THEN
        SELECT count(*) - p_keep INTO v_ties FROM jobs.done d
        WHERE d.state = 4 AND NOT d.stub AND d.queue = v_queue AND d.ended_at >= v_cut;
      END IF;
      SELECT array_agg(x.id), array_agg(x.tenant), array_agg(x.ended_at), count(*)
      INTO v_ids, v_tenants, v_ended, v_some FROM (
        SELECT d.id, d.tenant, d.ended_at FROM jobs.done d
        WHERE d.state = 4 AND NOT d.stub AND d.queue = v_queue AND d.ended_at = v_cut
        LIMIT v_ties FOR UPDATE SKIP LOCKED) x;
      PERFORM jobs.shed(v_ids, v_tenants, v_ended, v_now - c_stub);
      v_pruned := v_pruned + v_some;
      IF p_keep > c_few AND v_seen IS NOT NULL THEN
        PERFORM jobs.remember_cut('done', v_queue, v_cut, p_keep, v_now);
      END IF;
    END IF;
    v_floor := jobs.floor_of('done', v_queue, v_now);
    v_cut := greatest(v_now - p_done, v_cut - 1);
    SELECT array_agg(x.id), array_agg(x.tenant), array_agg(x.ended_at), count(*)
    INTO v_ids, v_tenants, v_ended, v_some FROM (
      SELECT d.id, d.tenant, d.ended_at FROM jobs.done d
      WHERE d.state = 4 AND NOT d.stub AND d.queue = v_queue AND d.ended_at >= v_floor
        AND d.ended_at <= v_cut
      ORDER BY d.ended_at LIMIT p_batch FOR UPDATE SKIP LOCKED) x;
    PERFORM jobs.shed(v_ids, v_tenants, v_ended, v_now - c_stub);
    v_pruned := v_pruned + v_some;
    PERFORM jobs.raise_floor('done', v_queue, CASE WHEN v_some < p_batch THEN v_cut END, v_now, v_seen);
    v_queues := v_queues + 1;
  END LOOP;
  v_more := v_more OR (v_queues >= c_queues AND v_pruned > 0);
  v_floor := jobs.floor_of('cancelled', '', v_now);
  SELECT array_agg(x.id), array_agg(x.tenant), array_agg(x.ended_at), count(*)
  INTO v_ids, v_tenants, v_ended, v_some FROM (
    SELECT d.id, d.tenant, d.ended_at FROM jobs.done d
    WHERE d.state = 5 AND NOT d.stub AND d.ended_at >= v_floor AND d.ended_at <= v_now - p_cancelled
    ORDER BY d.ended_at LIMIT p_batch FOR UPDATE SKIP LOCKED) x;
  PERFORM jobs.shed(v_ids, v_tenants, v_ended, v_now - c_stub);
  PERFORM jobs.raise_floor('cancelled', '',
    CASE WHEN v_some < p_batch THEN v_now - p_cancelled END, v_now, v_seen);
  v_pruned := v_pruned + v_some;
  v_more := v_more OR v_pruned >= p_batch;
  -- A stub was younger than that when it was made, so none comes before the floor later.
  v_floor := jobs.floor_of('stub', '', v_now);
  SELECT array_agg(x.id), array_agg(x.tenant), array_agg(x.ended_at), count(*)
  INTO v_ids, v_tenants, v_ended, v_some FROM (
    SELECT d.id, d.tenant, d.ended_at FROM jobs.done d
    WHERE d.stub AND d.ended_at >= v_floor AND d.ended_at <= v_now - c_stub
    ORDER BY d.ended_at LIMIT 2 * p_batch FOR UPDATE SKIP LOCKED) x;
  PERFORM jobs.shed(v_ids, v_tenants, v_ended, v_now - c_stub);
  v_more := v_more OR v_some >= 2 * p_batch;
  PERFORM jobs.raise_floor('stub', '',
    CASE WHEN v_some < 2 * p_batch THEN v_now - c_stub END, v_now, v_seen);

  -- Reserves an hour after their leases' end, and all but the newest 20,000 after two minutes.
  SELECT s.cut INTO v_cut FROM jobs.swept s
  WHERE s.what = 'taken' AND s.queue = '' AND s.cut_at > v_now - 60000 AND s.cut_at <= v_now;
  IF NOT FOUND THEN
    SELECT t.until INTO v_cut FROM jobs.taken t ORDER BY t.until DESC OFFSET c_taken LIMIT 1;
    IF v_seen IS NOT NULL THEN
      PERFORM jobs.remember_cut('taken', '', v_cut, c_taken, v_now);
    END IF;
  END IF;
  v_floor := jobs.floor_of('taken', '', v_now);
  v_cut := greatest(v_now - c_hour, least(v_now - c_stub, coalesce(v_cut, 0)));
  DELETE FROM jobs.taken t USING (
    SELECT x.nonce FROM jobs.taken x WHERE x.until >= v_floor AND x.until <= v_cut
    ORDER BY x.until LIMIT 4 * p_batch FOR UPDATE SKIP LOCKED) d
  WHERE t.nonce = d.nonce;
  GET DIAGNOSTICS v_some = ROW_COUNT;
  v_more := v_more OR v_some >= 4 * p_batch;
  PERFORM jobs.raise_floor('taken', '', CASE WHEN v_some < 4 * p_batch THEN v_cut END, v_now, v_seen);
  -- The minutes that are over, each lane's in one row; those of more than an hour ago go. A minute goes
  -- by its beginning, and what ended just before its end may be written soon after: one more is looked at.
  v_floor := jobs.floor_of('part', '', v_now);
  v_cut := v_now - v_now % 60000;
  WITH d AS (
    DELETE FROM jobs.minute m USING (
      SELECT x.ctid AS at FROM jobs.minute x
      WHERE NOT x.whole AND x.at >= v_floor AND x.at < v_cut
      ORDER BY x.at LIMIT 4 * p_batch FOR UPDATE SKIP LOCKED) o
    WHERE m.ctid = o.at RETURNING m.at, m.queue, m.tenant, m.finished, m.failed
  ), i AS (
    INSERT INTO jobs.minute (at, queue, tenant, finished, failed, whole)
    SELECT d.at, d.queue, d.tenant, sum(d.finished), sum(d.failed), true
    FROM d GROUP BY d.at, d.queue, d.tenant
  )
  SELECT count(*) INTO v_some FROM d;
  v_more := v_more OR v_some >= 4 * p_batch;
  PERFORM jobs.raise_floor('part', '', CASE WHEN v_some < 4 * p_batch THEN v_cut - 60000 END, v_now,
    v_seen);
  v_floor := jobs.floor_of('minute', '', v_now);
  v_cut := v_cut - c_hour;
  DELETE FROM jobs.minute m USING (
    SELECT x.ctid AS at FROM jobs.minute x WHERE x.whole AND x.at >= v_floor AND x.at < v_cut
    ORDER BY x.at LIMIT 4 * p_batch FOR UPDATE SKIP LOCKED) o
  WHERE m.ctid = o.at;
  GET DIAGNOSTICS v_some = ROW_COUNT;
  v_more := v_more OR v_some >= 4 * p_batch;
  PERFORM jobs.raise_floor('minute', '', CASE WHEN v_some < 4 * p_batch THEN v_cut - 60000 END, v_now,
    v_seen);
  DELETE FROM jobs.worker w USING (
    SELECT x.id FROM jobs.worker x WHERE x.seen <= v_now - 60000 FOR UPDATE SKIP LOCKED) o
  WHERE w.id = o.id;
  -- Turns are in microseconds.
  v_floor := jobs.floor_of('turn', '', v_now);
  DELETE FROM jobs.turn u USING (
    SELECT x.ctid AS at FROM jobs.turn x
    WHERE x.tenant <> '' AND x.visited >= v_floor * 1000 AND x.visited < (v_now - c_hour) * 1000
    ORDER BY x.visited LIMIT 4 * p_batch FOR UPDATE SKIP LOCKED) o
  WHERE u.ctid = o.at;
  GET DIAGNOSTICS v_some = ROW_COUNT;
  v_more := v_more OR v_some >= 4 * p_batch;
  PERFORM jobs.raise_floor('turn', '',
    CASE WHEN v_some < 4 * p_batch THEN v_now - c_hour END, v_now, v_seen);

  RETURN NEXT ROW(0, v_promoted, v_more::int4, NULL, v_queue, NULL, NULL, NULL, NULL, NULL, v_now, NULL,
    v_pruned, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::jobs.answer;
  IF v_lost IS NOT NULL THEN
    RETURN QUERY SELECT * FROM unnest(v_lost);
  END IF;
END $$;

-- Finished jobs leave history: those that ended after p_stub as stubs, the others for good.
CREATE FUNCTION jobs.shed(p_ids uuid[], p_tenants text[], p_ended int8[], p_stub int8)
RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_ids uuid[];
  v_tenants text[];
BEGIN
  IF p_ids IS NULL THEN
    RETURN;
  END IF;
  UPDATE jobs.done d SET stub = true FROM unnest(p_ids, p_tenants, p_ended) AS n(id, tenant, ended)
  WHERE d.id = n.id AND d.tenant = n.tenant AND n.ended > p_stub;
  SELECT array_agg(n.id), array_agg(n.tenant) INTO v_ids, v_tenants
  FROM unnest(p_ids, p_tenants, p_ended) AS n(id, tenant, ended) WHERE n.ended <= p_stub;
  IF v_ids IS NOT NULL THEN
    PERFORM jobs.remove(v_ids, v_tenants);
  END IF;
END $$;

-- From which instant on there may be some of `what`: forty seconds are always looked at again, for what
-- was locked, and for a call that read the clock and wrote nothing yet.
CREATE FUNCTION jobs.floor_of(p_what text, p_queue text, p_now int8) RETURNS int8 LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN least(p_now - 40000, coalesce(
    (SELECT s.floor FROM jobs.swept s WHERE s.what = p_what AND s.queue = p_queue), 0));
END $$;

-- There was none of `what` left before p_floor, as far as committed; null: some were left. It is the
-- floor once every transaction that was writing then is over, which is so for a sweep that saw none of
-- them (p_seen) and left none either: an application's may have pushed and stay open for long.
-- Written every twenty seconds, so that looking it up stays cheap under a long snapshot; at once when
-- the clock went back. Not by a sweep beside another (p_seen is null).
CREATE FUNCTION jobs.raise_floor(p_what text, p_queue text, p_floor int8, p_now int8, p_seen xid8)
RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  v jobs.swept;
  v_next int8 := p_floor - 40000;
  v_floor int8;
  v_over bool;
BEGIN
  IF p_seen IS NULL THEN
    RETURN;
  END IF;
  SELECT s.* INTO v FROM jobs.swept s WHERE s.what = p_what AND s.queue = p_queue;
  IF NOT FOUND THEN
    INSERT INTO jobs.swept (what, queue, floor, next, next_xid)
    VALUES (p_what, p_queue, 0, v_next, pg_current_xact_id()) ON CONFLICT DO NOTHING;
    RETURN;
  END IF;
  v_over := v_next IS NOT NULL AND coalesce(v.next_xid < p_seen, true);
  v_floor := least(CASE WHEN v_over THEN greatest(v.floor, v.next) ELSE v.floor END, p_now - 40000);
  IF v_floor < v.floor OR v_floor >= v.floor + 20000
    OR (v_over AND v_next >= coalesce(v.next, 0) + 20000)
    OR v.next_xid > pg_snapshot_xmax(pg_current_snapshot())
  THEN
    UPDATE jobs.swept s SET floor = v_floor, next = coalesce(v_next, v_floor),
      next_xid = pg_current_xact_id()
    WHERE s.what = p_what AND s.queue = p_queue;
  END IF;
END $$;

-- What ended at this instant or before is too many, for a minute; null: it is not. By the sweep that
-- writes floors.
CREATE FUNCTION jobs.remember_cut(p_what text, p_queue text, p_cut int8, p_keep int8, p_now int8)
RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  INSERT INTO jobs.swept AS s (what, queue, floor, cut, keep, cut_at)
  VALUES (p_what, p_queue, 0, p_cut, p_keep, p_now)
  ON CONFLICT (what, queue) DO UPDATE
  SET cut = excluded.cut, keep = excluded.keep, cut_at = excluded.cut_at;
END $$;

-- Is a running job's lease valid? One longer than any is damage; one that ends late but is not too long
-- is of before the clock went back, and its holder may still live.
CREATE FUNCTION jobs.is_held(p_until int8, p_renewed int8, p_now int8) RETURNS bool LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN p_until > p_now AND p_until <= least(coalesce(p_renewed, 0), 8000000000000) + 7200000;
END $$;

-- Frees the keys of those jobs that are not live any more.
CREATE FUNCTION jobs.free_ended_keys(p_ids uuid[], p_tenants text[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_ids uuid[];
  v_tenants text[];
BEGIN
  SELECT array_agg(n.id), array_agg(n.tenant) INTO v_ids, v_tenants
  FROM unnest(p_ids, p_tenants) AS n(id, tenant)
  WHERE NOT EXISTS (SELECT 1 FROM jobs.live v WHERE v.id = n.id AND v.tenant = n.tenant);
  IF v_ids IS NOT NULL THEN
    PERFORM jobs.free_keys(v_ids, v_tenants);
  END IF;
END $$;

-- Removes jobs for good, but for their live rows and keys.
CREATE FUNCTION jobs.remove(p_ids uuid[], p_tenants text[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  DELETE FROM jobs.done d USING unnest(p_ids, p_tenants) AS n(id, tenant)
  WHERE d.id = n.id AND d.tenant = n.tenant;
  DELETE FROM jobs.attempt a USING unnest(p_ids, p_tenants) AS n(id, tenant)
  WHERE a.id = n.id AND a.tenant = n.tenant;
  DELETE FROM jobs.body b USING unnest(p_ids, p_tenants) AS n(id, tenant)
  WHERE b.id = n.id AND b.tenant = n.tenant;
END $$;
