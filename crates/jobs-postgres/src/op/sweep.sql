-- One bounded round: takes back what was silent, promotes what came due, prunes history. Answers a head
-- (`at` promoted, `code` is there more to do, `attempt` pruned) and a row of part 1 for each job that
-- was taken back, with its new `state`. A lease that ends in more than two hours is damage: none is
-- longer than an hour.
CREATE FUNCTION jobs.sweep(p_batch int4, p_done int8, p_keep int8, p_cancelled int8)
RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := jobs.now_ms();
  v_ids uuid[];
  v_tenants text[];
  v_lost jobs.answer[];
  v_silent int4;
  v_promoted int4 := 0;
  v_pruned int4 := 0;
  v_stubs int4 := 0;
  v_some int4;
  v_long bool;
  v_queue text;
  v_cut int8;
BEGIN
  WITH h AS MATERIALIZED (
    SELECT v.* FROM jobs.live v
    WHERE v.state = 2 AND (v.lease_until <= v_now OR v.lease_until IS NULL
      OR v.lease_until > v_now + 7200000)
    LIMIT p_batch FOR UPDATE SKIP LOCKED
  ), m AS MATERIALIZED (
    SELECT h.*, (CASE WHEN h.cancel THEN 5 WHEN h.attempt < h.max_attempts THEN 1 ELSE 3 END)::int2
      AS to_state FROM h
  ), r AS (
    INSERT INTO jobs.attempt (id, tenant, fence, number, worker, started_at, ended_at, outcome, cause)
    SELECT m.id, m.tenant, m.fence, m.attempt, coalesce(m.worker, ''), coalesce(m.started_at, v_now),
      v_now, 6, 'the lease ran out without a renewal' FROM m
    ON CONFLICT DO NOTHING
  ), c AS (
    INSERT INTO jobs.minute (at, queue, tenant, finished, failed)
    SELECT v_now - v_now % 60000, m.queue, m.tenant, 0, count(*) FROM m GROUP BY m.queue, m.tenant
  ), e AS (
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
  IF v_silent > 0 THEN
    -- A cancelled one holds its key no more.
    PERFORM jobs.free_ended_keys(v_ids, v_tenants);
    IF v_long THEN
      PERFORM jobs.trim_attempts(v_ids, v_tenants);
    END IF;
  END IF;

  -- Due jobs, queue by queue and name by name.
  WITH RECURSIVE t AS (
    (SELECT v.queue, v.name FROM jobs.live v WHERE v.state = 0 ORDER BY v.queue, v.name LIMIT 1)
    UNION ALL
    SELECT x.queue, x.name FROM t CROSS JOIN LATERAL (
      SELECT v.queue, v.name FROM jobs.live v
      WHERE v.state = 0 AND (v.queue, v.name) > (t.queue, t.name)
      ORDER BY v.queue, v.name LIMIT 1) x
  ), d AS MATERIALIZED (
    SELECT x.* FROM t CROSS JOIN LATERAL (
      SELECT v.id, v.tenant FROM jobs.live v
      WHERE v.state = 0 AND v.queue = t.queue AND v.name = t.name AND v.run_at <= v_now
      ORDER BY v.run_at LIMIT p_batch FOR UPDATE SKIP LOCKED) x
    LIMIT p_batch
  ), u AS (
    UPDATE jobs.live v SET state = 1 FROM d WHERE v.id = d.id AND v.tenant = d.tenant
    RETURNING v.queue, v.name, v.suspect, v.tenant, v.rank, v.run_at, v.id
  )
  SELECT count(*), array_cat(v_lost, array_agg(ROW(2, NULL, NULL, NULL, u.queue, u.tenant, u.id, u.name,
    u.suspect, u.rank, u.run_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::jobs.answer))
  INTO v_promoted, v_lost FROM u;

  -- History by age and number. What ended more than two minutes ago leaves no stub.
  v_queue := '';
  LOOP
    SELECT d.queue INTO v_queue FROM jobs.done d
    WHERE d.state = 4 AND NOT d.stub AND d.queue > v_queue ORDER BY d.queue LIMIT 1;
    EXIT WHEN NOT FOUND OR v_pruned >= p_batch;
    SELECT d.ended_at INTO v_cut FROM jobs.done d
    WHERE d.state = 4 AND NOT d.stub AND d.queue = v_queue
    ORDER BY d.ended_at DESC OFFSET p_keep LIMIT 1;
    WITH o AS MATERIALIZED (
      SELECT d.id, d.tenant FROM jobs.done d
      WHERE d.state = 4 AND NOT d.stub AND d.queue = v_queue
        AND d.ended_at <= greatest(v_now - p_done, v_cut)
      ORDER BY d.ended_at LIMIT p_batch - v_pruned FOR UPDATE SKIP LOCKED
    ), s AS (
      UPDATE jobs.done d SET stub = true FROM o WHERE d.id = o.id AND d.tenant = o.tenant
    )
    SELECT count(*) INTO v_some FROM o;
    v_pruned := v_pruned + v_some;
  END LOOP;
  IF v_pruned < p_batch THEN
    WITH o AS MATERIALIZED (
      SELECT d.id, d.tenant FROM jobs.done d
      WHERE d.state = 5 AND NOT d.stub AND d.ended_at <= v_now - p_cancelled
      ORDER BY d.ended_at LIMIT p_batch - v_pruned FOR UPDATE SKIP LOCKED
    ), s AS (
      UPDATE jobs.done d SET stub = true FROM o WHERE d.id = o.id AND d.tenant = o.tenant
    )
    SELECT count(*) INTO v_some FROM o;
    v_pruned := v_pruned + v_some;
  END IF;
  SELECT array_agg(d.id), array_agg(d.tenant), count(*) INTO v_ids, v_tenants, v_stubs FROM (
    SELECT d.id, d.tenant FROM jobs.done d WHERE d.stub AND d.ended_at <= v_now - 120000
    ORDER BY d.ended_at LIMIT 2 * p_batch FOR UPDATE SKIP LOCKED) d;
  IF v_stubs > 0 THEN
    PERFORM jobs.remove(v_ids, v_tenants);
  END IF;

  -- Reserves an hour after their leases' end, and all but the newest 20,000 after two minutes.
  DELETE FROM jobs.taken t USING (
    SELECT x.nonce FROM jobs.taken x
    WHERE x.until <= greatest(v_now - 3600000, least(v_now - 120000, coalesce(
      (SELECT y.until FROM jobs.taken y ORDER BY y.until DESC OFFSET 20000 LIMIT 1), 0)))
    ORDER BY x.until LIMIT 4 * p_batch FOR UPDATE SKIP LOCKED) d
  WHERE t.nonce = d.nonce;
  -- The minutes that are over, each lane's in one row; those of more than an hour ago go.
  WITH d AS (
    DELETE FROM jobs.minute m USING (
      SELECT x.ctid AS at FROM jobs.minute x
      WHERE NOT x.whole AND x.at < v_now - v_now % 60000
      ORDER BY x.at LIMIT 4 * p_batch FOR UPDATE SKIP LOCKED) o
    WHERE m.ctid = o.at RETURNING m.at, m.queue, m.tenant, m.finished, m.failed
  )
  INSERT INTO jobs.minute (at, queue, tenant, finished, failed, whole)
  SELECT d.at, d.queue, d.tenant, sum(d.finished), sum(d.failed), true
  FROM d GROUP BY d.at, d.queue, d.tenant;
  DELETE FROM jobs.minute m USING (
    SELECT x.ctid AS at FROM jobs.minute x
    WHERE x.at < v_now - 3600000 - (v_now - 3600000) % 60000
    ORDER BY x.at LIMIT 4 * p_batch FOR UPDATE SKIP LOCKED) o
  WHERE m.ctid = o.at;
  DELETE FROM jobs.worker w USING (
    SELECT x.id FROM jobs.worker x WHERE x.seen <= v_now - 60000 FOR UPDATE SKIP LOCKED) o
  WHERE w.id = o.id;
  DELETE FROM jobs.turn u USING (
    SELECT x.ctid AS at FROM jobs.turn x
    WHERE x.visited < (extract(epoch FROM clock_timestamp()) * 1000000)::int8 - 3600000000
      AND x.tenant <> ''
    ORDER BY x.visited LIMIT p_batch FOR UPDATE SKIP LOCKED) o
  WHERE u.ctid = o.at;

  RETURN NEXT ROW(0, v_promoted,
    (v_silent >= p_batch OR v_promoted >= p_batch OR v_pruned >= p_batch OR v_stubs >= 2 * p_batch)::int4,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, v_now, NULL, v_pruned, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL)::jobs.answer;
  IF v_lost IS NOT NULL THEN
    RETURN QUERY SELECT * FROM unnest(v_lost);
  END IF;
END $$;

-- Frees the keys of those jobs that are not live any more.
CREATE FUNCTION jobs.free_ended_keys(p_ids uuid[], p_tenants text[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  DELETE FROM jobs.key k USING unnest(p_ids, p_tenants) AS n(id, tenant), jobs.body b
  WHERE b.id = n.id AND b.tenant = n.tenant AND k.tenant = b.tenant AND k.key = b.key AND k.id = b.id
    AND NOT EXISTS (SELECT 1 FROM jobs.live v WHERE v.id = b.id AND v.tenant = b.tenant);
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
