-- Ends runs whose whole claim is held; time is not compared. Settlements come in the order of identity,
-- one a claim. Answers a head (part 5; `at` how many were applied as done, `run_at` now), then a row (part 3) for each of
-- the others: `at` its place, `code` 1 applied with the new `state`, 2 settled before with that outcome, 0
-- lost. A job that is ready again comes with its line.
CREATE FUNCTION jobs.settle(
  tenants text[], ids uuid[], fences int8[], nonces int8[], kinds int2[], delays int8[], causes text[]
) RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := jobs.now_ms();
  v_done int4[];
  v_applied int4[];
  v_answers jobs.answer[];
BEGIN
  IF 0 <> ANY (kinds) THEN
    -- All in one order, though they are written in two statements.
    PERFORM FROM unnest(tenants, ids, fences, nonces) AS s(tenant, id, fence, nonce)
    JOIN jobs.live v ON v.id = s.id AND v.tenant = s.tenant
    WHERE v.state + 0 = 2 AND v.fence = s.fence AND v.nonce = s.nonce AND v.nonce <> 0
    ORDER BY v.id, v.tenant FOR UPDATE OF v;
    SELECT x.applied, x.answers INTO v_applied, v_answers
    FROM jobs.put_back(tenants, ids, fences, nonces, kinds, delays, causes, v_now) x;
  END IF;
  v_done := jobs.finish(tenants, ids, fences, nonces, kinds, v_now);
  RETURN NEXT ROW(5, cardinality(v_done), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, v_now, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::jobs.answer;
  IF v_answers IS NOT NULL THEN
    RETURN QUERY SELECT * FROM unnest(v_answers);
  END IF;
  v_applied := v_done || v_applied;
  IF cardinality(v_applied) = cardinality(ids) THEN
    RETURN;
  END IF;
  -- Repeated: the outcome that won, until the next delivery or two minutes after the end.
  RETURN QUERY
    SELECT 3::int2, s.at::int4,
      (CASE WHEN l.outcome IS NULL AND d.outcome IS NULL THEN 0 ELSE 2 END)::int2,
      coalesce(l.outcome, d.outcome), NULL::text, NULL::text, NULL::uuid, NULL::text, NULL::bool, NULL::int2,
      NULL::int8, NULL::int8, NULL::int4, NULL::text, NULL::text, NULL::bytea, NULL::int4, NULL::int8,
      NULL::text, NULL::int2, NULL::text
    FROM unnest(tenants, ids, fences, nonces) WITH ORDINALITY AS s(tenant, id, fence, nonce, at)
    LEFT JOIN jobs.live l ON l.id = s.id AND l.tenant = s.tenant AND l.state <> 2
      AND l.fence = s.fence AND l.nonce = s.nonce AND l.nonce <> 0
    LEFT JOIN jobs.done d ON d.id = s.id AND d.tenant = s.tenant
      AND d.fence = s.fence AND d.nonce = s.nonce AND d.nonce <> 0 AND v_now - 120000 < d.ended_at
    WHERE s.at::int4 <> ALL (v_applied);
END $$;

-- Settles as done, the happy path: rows are locked, read and removed in one statement, which looks each up
-- once (1.2 ms of 180 jobs, and 2.0 with a lock, a read and a sorted copy of each before). Answers the
-- places of those whose claim is held.
CREATE FUNCTION jobs.finish(
  tenants text[], ids uuid[], fences int8[], nonces int8[], kinds int2[], p_now int8
) RETURNS int4[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_at int4[];
  v_keyed_ids uuid[];
  v_keyed_tenants text[];
BEGIN
  -- A nested loop over what was asked, so in its order.
  WITH s AS MATERIALIZED (
    SELECT s.* FROM unnest(tenants, ids, fences, nonces, kinds) WITH ORDINALITY
      AS s(tenant, id, fence, nonce, kind, at)
    WHERE s.kind = 0
  ), m AS (
    DELETE FROM jobs.live v USING s
    WHERE v.id = s.id AND v.tenant = s.tenant AND v.state + 0 = 2
      AND v.fence = s.fence AND v.nonce = s.nonce AND v.nonce <> 0
    RETURNING v.id, v.tenant, v.queue, v.run_at, v.attempt, v.fence, v.nonce, v.started_at, v.worker,
      v.snoozes, v.releases, v.verb, v.verb_by, v.verb_at, v.keyed, s.at
  ), e AS (
    INSERT INTO jobs.done (id, tenant, queue, state, run_at, ended_at, attempt, fence, nonce, outcome,
      started_at, worker, snoozes, releases, verb, verb_by, verb_at, suspect)
    SELECT m.id, m.tenant, m.queue, 4, m.run_at, p_now, m.attempt, m.fence, m.nonce, 0, m.started_at,
      m.worker, m.snoozes, m.releases, m.verb, m.verb_by, m.verb_at, false
    FROM m
  ), c AS (
    INSERT INTO jobs.minute (at, queue, tenant, finished, failed)
    SELECT p_now - p_now % 60000, m.queue, m.tenant, count(*), 0 FROM m GROUP BY m.queue, m.tenant
  )
  SELECT coalesce(array_agg(m.at::int4), '{}'), array_agg(m.id) FILTER (WHERE m.keyed > 0),
    array_agg(m.tenant) FILTER (WHERE m.keyed > 0)
  INTO v_at, v_keyed_ids, v_keyed_tenants FROM m;
  IF v_keyed_ids IS NOT NULL THEN
    PERFORM jobs.free_keys(v_keyed_ids, v_keyed_tenants);
  END IF;
  RETURN v_at;
END $$;

-- Settles as anything but done, rows that are locked. Answers their places, and of each its new state and,
-- where it is in line again, its line.
-- The table of states is the contract's `step`, for a running job.
CREATE FUNCTION jobs.put_back(
  tenants text[], ids uuid[], fences int8[], nonces int8[], kinds int2[], delays int8[], causes text[],
  p_now int8, OUT applied int4[], OUT answers jobs.answer[]
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_long bool;
  v_ended_ids uuid[];
  v_ended_tenants text[];
BEGIN
  WITH s AS MATERIALIZED (
    SELECT s.* FROM unnest(tenants, ids, fences, nonces, kinds, delays, causes) WITH ORDINALITY
      AS s(tenant, id, fence, nonce, kind, delay, cause, at)
    WHERE s.kind <> 0
  ), h AS MATERIALIZED (
    SELECT v.*, s.kind, s.delay, s.cause, s.at
    FROM s JOIN jobs.live v ON v.id = s.id AND v.tenant = s.tenant
    WHERE v.state + 0 = 2 AND v.fence = s.fence AND v.nonce = s.nonce AND v.nonce <> 0
  ), m AS MATERIALIZED (
    SELECT h.*, (CASE
        WHEN h.kind = 5 OR h.cancel THEN 5
        WHEN h.kind IN (1, 3) THEN 0
        WHEN h.kind = 2 THEN 3
        ELSE 1 END)::int2 AS to_state,
      CASE WHEN h.delay IS NULL THEN h.run_at ELSE least(7289654399999, p_now + h.delay) END AS to_due,
      h.attempt - (CASE WHEN h.kind IN (3, 4) THEN 1 ELSE 0 END) AS to_attempt,
      CASE WHEN h.kind IN (3, 4) THEN h.suspect ELSE false END AS to_suspect
    FROM h
  ), e AS (
    INSERT INTO jobs.done (id, tenant, queue, state, run_at, ended_at, attempt, fence, nonce, outcome,
      started_at, worker, snoozes, releases, verb, verb_by, verb_at, suspect)
    SELECT m.id, m.tenant, m.queue, m.to_state, m.to_due, p_now, m.to_attempt, m.fence, m.nonce, m.kind,
      m.started_at, m.worker, m.snoozes + (m.kind = 3)::int4, m.releases + (m.kind = 4)::int4, m.verb,
      m.verb_by, m.verb_at, m.to_suspect
    FROM m WHERE m.to_state = 5
  ), g AS (
    DELETE FROM jobs.live v USING m WHERE v.id = m.id AND v.tenant = m.tenant AND m.to_state = 5
  ), b AS (
    UPDATE jobs.live v SET state = m.to_state, run_at = m.to_due, attempt = m.to_attempt,
      suspect = m.to_suspect, outcome = m.kind, cancel = false, lease_until = NULL, started_at = NULL,
      renewed_at = NULL, worker = NULL, snoozes = m.snoozes + (m.kind = 3)::int4,
      releases = m.releases + (m.kind = 4)::int4
    FROM m WHERE v.id = m.id AND v.tenant = m.tenant AND m.to_state <> 5
  ), r AS (
    INSERT INTO jobs.attempt (id, tenant, fence, number, worker, started_at, ended_at, outcome, cause)
    SELECT m.id, m.tenant, m.fence, m.attempt, coalesce(m.worker, ''), coalesce(m.started_at, p_now),
      p_now, m.kind, m.cause
    FROM m WHERE m.kind IN (1, 2, 5)
    ON CONFLICT DO NOTHING
  ), c AS (
    -- What an operator cancelled did not fail.
    INSERT INTO jobs.minute (at, queue, tenant, finished, failed)
    SELECT p_now - p_now % 60000, m.queue, m.tenant, 0, count(*)
    FROM m WHERE m.kind IN (1, 2) AND m.to_state <> 5
    GROUP BY m.queue, m.tenant
  )
  SELECT array_agg(m.at::int4), bool_or(m.fence > 100 AND m.kind IN (1, 2, 5)),
    array_agg(m.id) FILTER (WHERE m.keyed > 0 AND m.to_state = 5),
    array_agg(m.tenant) FILTER (WHERE m.keyed > 0 AND m.to_state = 5),
    array_agg(ROW(3, m.at, 1, m.to_state, m.queue, m.tenant, m.id, m.name, m.to_suspect, m.rank,
      m.to_due, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::jobs.answer)
  INTO applied, v_long, v_ended_ids, v_ended_tenants, answers FROM m;
  IF v_ended_ids IS NOT NULL THEN
    PERFORM jobs.free_keys(v_ended_ids, v_ended_tenants);
  END IF;
  IF v_long THEN
    PERFORM jobs.trim_attempts(ids, tenants);
  END IF;
END $$;

-- Frees the keys that jobs hold.
CREATE FUNCTION jobs.free_keys(ids uuid[], tenants text[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  -- Locked in the order in which pushes take them.
  DELETE FROM jobs.key k USING (
    SELECT x.tenant, x.key FROM unnest(ids, tenants) AS n(id, tenant)
    JOIN jobs.body b ON b.id = n.id AND b.tenant = n.tenant
    JOIN jobs.key x ON x.tenant = b.tenant AND x.key = b.key AND x.id = b.id
    ORDER BY x.tenant, x.key FOR UPDATE OF x) o
  WHERE k.tenant = o.tenant AND k.key = o.key;
END $$;

-- Forgets all but the newest hundred attempts.
CREATE FUNCTION jobs.trim_attempts(ids uuid[], tenants text[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  DELETE FROM jobs.attempt a USING unnest(ids, tenants) AS n(id, tenant)
  WHERE a.id = n.id AND a.tenant = n.tenant AND a.fence <= (
    SELECT x.fence FROM jobs.attempt x WHERE x.id = n.id AND x.tenant = n.tenant
    ORDER BY x.fence DESC OFFSET 100 LIMIT 1);
END $$;
