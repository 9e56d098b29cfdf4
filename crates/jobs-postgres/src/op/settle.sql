-- Ends runs whose whole claim is held; time is not compared. Answers one row (part 3) for each
-- settlement that is not lost: `at` its place, `code` 1 applied with the new `state`, 2 settled before
-- with that outcome. A job that is ready again comes with its line.
-- The table of states is the contract's `step`, for a running job.
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
  v_applied int4[];
  v_keyed bool;
  v_long bool;
  v_ended_ids uuid[];
  v_ended_tenants text[];
  v_answers jobs.answer[];
BEGIN
  -- The first of a claim wins. Locked in the order of identity.
  WITH s AS MATERIALIZED (
    SELECT DISTINCT ON (s.id, s.tenant, s.fence, s.nonce) s.*
    FROM unnest(tenants, ids, fences, nonces, kinds, delays, causes) WITH ORDINALITY
      AS s(tenant, id, fence, nonce, kind, delay, cause, at)
    ORDER BY s.id, s.tenant, s.fence, s.nonce, s.at
  ), h AS MATERIALIZED (
    SELECT v.*, s.kind, s.delay, s.cause, s.at
    FROM s JOIN jobs.live v ON v.id = s.id AND v.tenant = s.tenant
    WHERE v.state + 0 = 2 AND v.fence = s.fence AND v.nonce = s.nonce AND v.nonce <> 0
    ORDER BY v.id, v.tenant
    FOR UPDATE OF v
  ), m AS MATERIALIZED (
    SELECT h.*, (CASE
        WHEN h.kind = 0 THEN 4
        WHEN h.kind = 5 OR h.cancel THEN 5
        WHEN h.kind IN (1, 3) THEN 0
        WHEN h.kind = 2 THEN 3
        ELSE 1 END)::int2 AS to_state,
      CASE WHEN h.delay IS NULL THEN h.run_at ELSE least(7289654399999, v_now + h.delay) END AS to_due,
      h.attempt - (CASE WHEN h.kind IN (3, 4) THEN 1 ELSE 0 END) AS to_attempt,
      CASE WHEN h.kind IN (3, 4) THEN h.suspect ELSE false END AS to_suspect
    FROM h
  ), e AS (
    INSERT INTO jobs.done (id, tenant, queue, state, run_at, ended_at, attempt, fence, nonce, outcome,
      started_at, worker, snoozes, releases, verb, verb_by, verb_at, suspect)
    SELECT m.id, m.tenant, m.queue, m.to_state, m.to_due, v_now, m.to_attempt, m.fence, m.nonce, m.kind,
      m.started_at, m.worker, m.snoozes + (m.kind = 3)::int4, m.releases + (m.kind = 4)::int4, m.verb,
      m.verb_by, m.verb_at, m.to_suspect
    FROM m WHERE m.to_state IN (4, 5)
  ), g AS (
    DELETE FROM jobs.live v USING m
    WHERE v.id = m.id AND v.tenant = m.tenant AND m.to_state IN (4, 5)
  ), b AS (
    UPDATE jobs.live v SET state = m.to_state, run_at = m.to_due, attempt = m.to_attempt,
      suspect = m.to_suspect, outcome = m.kind, cancel = false, lease_until = NULL, started_at = NULL,
      renewed_at = NULL, worker = NULL, snoozes = m.snoozes + (m.kind = 3)::int4,
      releases = m.releases + (m.kind = 4)::int4
    FROM m WHERE v.id = m.id AND v.tenant = m.tenant AND m.to_state NOT IN (4, 5)
  ), r AS (
    INSERT INTO jobs.attempt (id, tenant, fence, number, worker, started_at, ended_at, outcome, cause)
    SELECT m.id, m.tenant, m.fence, m.attempt, coalesce(m.worker, ''), coalesce(m.started_at, v_now),
      v_now, m.kind, m.cause
    FROM m WHERE m.kind IN (1, 2, 5)
    ON CONFLICT DO NOTHING
  ), c AS (
    -- What an operator cancelled did not fail.
    INSERT INTO jobs.minute (at, queue, tenant, finished, failed)
    SELECT v_now - v_now % 60000, m.queue, m.tenant, count(*) FILTER (WHERE m.kind = 0),
      count(*) FILTER (WHERE m.kind IN (1, 2))
    FROM m WHERE m.kind = 0 OR (m.kind IN (1, 2) AND m.to_state <> 5)
    GROUP BY m.queue, m.tenant
  )
  SELECT array_agg(m.at::int4), bool_or(m.keyed > 0 AND m.to_state IN (4, 5)),
    bool_or(m.fence > 100 AND m.kind IN (1, 2, 5)),
    array_agg(m.id) FILTER (WHERE m.keyed > 0 AND m.to_state IN (4, 5)),
    array_agg(m.tenant) FILTER (WHERE m.keyed > 0 AND m.to_state IN (4, 5)),
    array_agg(ROW(3, m.at, 1, m.to_state, m.queue, m.tenant, m.id, m.name, m.to_suspect, m.rank,
      m.to_due, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::jobs.answer)
  INTO v_applied, v_keyed, v_long, v_ended_ids, v_ended_tenants, v_answers FROM m;
  IF v_keyed THEN
    PERFORM jobs.free_keys(v_ended_ids, v_ended_tenants);
  END IF;
  IF v_long THEN
    PERFORM jobs.trim_attempts(ids, tenants);
  END IF;
  IF v_answers IS NOT NULL THEN
    RETURN QUERY SELECT * FROM unnest(v_answers);
  END IF;
  IF coalesce(cardinality(v_applied), 0) = cardinality(ids) THEN
    RETURN;
  END IF;
  -- Repeated: the outcome that won, until the next delivery or two minutes after the end.
  RETURN QUERY
    SELECT 3::int2, s.at::int4, 2::int2, coalesce(l.outcome, d.outcome), NULL::text, NULL::text,
      NULL::uuid, NULL::text, NULL::bool, NULL::int2, NULL::int8, NULL::int8, NULL::int4, NULL::text,
      NULL::text, NULL::bytea, NULL::int4, NULL::int8, NULL::text, NULL::int2, NULL::text
    FROM unnest(tenants, ids, fences, nonces) WITH ORDINALITY AS s(tenant, id, fence, nonce, at)
    LEFT JOIN jobs.live l ON l.id = s.id AND l.tenant = s.tenant AND l.state <> 2
      AND l.fence = s.fence AND l.nonce = s.nonce AND l.nonce <> 0
    LEFT JOIN jobs.done d ON d.id = s.id AND d.tenant = s.tenant
      AND d.fence = s.fence AND d.nonce = s.nonce AND d.nonce <> 0 AND v_now < d.ended_at + 120000
    WHERE coalesce(l.outcome, d.outcome) IS NOT NULL
      AND (v_applied IS NULL OR s.at::int4 <> ALL (v_applied));
END $$;

-- Frees the keys that jobs hold.
CREATE FUNCTION jobs.free_keys(ids uuid[], tenants text[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  DELETE FROM jobs.key k USING unnest(ids, tenants) AS n(id, tenant), jobs.body b
  WHERE b.id = n.id AND b.tenant = n.tenant AND k.tenant = b.tenant AND k.key = b.key AND k.id = b.id;
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
