-- Stores jobs of distinct ids and keys. Answers one row with now (`run_at`), then one for each job that
-- is not stored: its place (`at`), `code` 1 a duplicate in `state`, 2 its key is held by `id` in
-- `state`, 3 somebody's transaction ended in between: push it again.
-- Everything is one call, so that it is one round trip, and nothing expected raises an error: a caller
-- of push_in would lose the transaction. Rows are written in the order of identity, so that two pushes
-- of the same jobs wait for each other in one order only.
-- Stored jobs are looked up by subqueries, which no plan made on empty tables turns into a join that
-- reads all of them; the joins are of what was asked.
-- Rejected: a body before its key is known to be free, which leaves a dead row for every refused push.
CREATE FUNCTION jobs.enqueue(
  ids uuid[], tenants text[], queues text[], names text[], actions text[], bys text[],
  payloads bytea[], priorities int2[], attempts int4[], timeouts int8[], keys text[], scopes int2[],
  metadatas text[], ats int8[], delays int8[], keyed bool
) RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := jobs.now_ms();
  v_most int8 := 7289654399999;
  v_ids uuid[];
  v_tenants text[];
  v_lost_keys text[];
  v_lost_tenants text[];
BEGIN
  IF NOT keyed THEN
    WITH b AS (
      INSERT INTO jobs.body (id, tenant, queue, name, action, authorized_by, payload, priority,
        max_attempts, timeout, key, key_scope, metadata, pushed_at, due)
      SELECT s.id, s.tenant, s.queue, s.name, s.action, s.by, s.payload, s.priority, s.attempts,
        s.timeout, NULL, 0, s.metadata, v_now,
        least(v_most, greatest(v_now, coalesce(s.at, v_now + coalesce(s.delay, 0))))
      FROM unnest(ids, tenants, queues, names, actions, bys, payloads, priorities, attempts, timeouts,
        metadatas, ats, delays) AS s(id, tenant, queue, name, action, by, payload, priority, attempts,
        timeout, metadata, at, delay)
      ORDER BY s.id, s.tenant
      ON CONFLICT (id, tenant) DO NOTHING
      RETURNING id, tenant, queue, name, priority, due, max_attempts
    ), l AS (
      INSERT INTO jobs.live (id, tenant, queue, name, state, rank, run_at, max_attempts)
      SELECT b.id, b.tenant, b.queue, b.name, CASE WHEN b.due <= v_now THEN 1 ELSE 0 END,
        -b.priority, b.due, b.max_attempts FROM b
    )
    SELECT array_agg(b.id), array_agg(b.tenant) INTO v_ids, v_tenants FROM b;
  ELSE
    WITH s AS MATERIALIZED (
      SELECT s.* FROM unnest(ids, tenants, queues, names, actions, bys, payloads, priorities, attempts,
        timeouts, keys, scopes, metadatas, ats, delays) AS s(id, tenant, queue, name, action, by,
        payload, priority, attempts, timeout, key, scope, metadata, at, delay)
      WHERE (SELECT true FROM jobs.body b WHERE b.id = s.id AND b.tenant = s.tenant) IS NULL
    ), k AS (
      INSERT INTO jobs.key AS h (tenant, key, id)
      SELECT s.tenant, s.key, s.id FROM s WHERE s.key IS NOT NULL ORDER BY s.tenant, s.key
      ON CONFLICT (tenant, key) DO NOTHING
      RETURNING h.tenant, h.key, h.id
    ), b AS (
      INSERT INTO jobs.body (id, tenant, queue, name, action, authorized_by, payload, priority,
        max_attempts, timeout, key, key_scope, metadata, pushed_at, due)
      SELECT s.id, s.tenant, s.queue, s.name, s.action, s.by, s.payload, s.priority, s.attempts,
        s.timeout, s.key, s.scope, s.metadata, v_now,
        least(v_most, greatest(v_now, coalesce(s.at, v_now + coalesce(s.delay, 0))))
      FROM s LEFT JOIN k ON k.tenant = s.tenant AND k.key = s.key
      WHERE s.key IS NULL OR k.key IS NOT NULL
      ORDER BY s.id, s.tenant
      ON CONFLICT (id, tenant) DO NOTHING
      RETURNING id, tenant, queue, name, priority, due, max_attempts, key_scope
    ), l AS (
      INSERT INTO jobs.live (id, tenant, queue, name, state, rank, run_at, max_attempts, keyed)
      SELECT b.id, b.tenant, b.queue, b.name, CASE WHEN b.due <= v_now THEN 1 ELSE 0 END,
        -b.priority, b.due, b.max_attempts, b.key_scope FROM b
    )
    SELECT (SELECT array_agg(b.id ORDER BY b.id, b.tenant) FROM b),
      (SELECT array_agg(b.tenant ORDER BY b.id, b.tenant) FROM b),
      array_agg(k.tenant), array_agg(k.key)
    INTO v_ids, v_tenants, v_lost_tenants, v_lost_keys
    FROM k WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = k.id AND b.tenant = k.tenant);
    -- Its id was stored meanwhile, so it holds no key.
    IF v_lost_keys IS NOT NULL THEN
      DELETE FROM jobs.key k USING unnest(v_lost_tenants, v_lost_keys) AS n(tenant, key)
      WHERE k.tenant = n.tenant AND k.key = n.key;
    END IF;
  END IF;
  RETURN NEXT ROW(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, v_now,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::jobs.answer;
  IF coalesce(cardinality(v_ids), 0) = cardinality(ids) THEN
    RETURN;
  END IF;
  RETURN QUERY
    SELECT 3::int2, s.at::int4,
      (CASE WHEN x.state IS NOT NULL THEN 1 WHEN y.state IS NOT NULL THEN 2 ELSE 3 END)::int2,
      coalesce(x.state, y.state), NULL::text, NULL::text, y.id, NULL::text, NULL::bool, NULL::int2,
      NULL::int8, NULL::int8, NULL::int4, NULL::text, NULL::text, NULL::bytea, NULL::int4, NULL::int8,
      NULL::text, NULL::int2, NULL::text
    FROM unnest(ids, tenants, keys) WITH ORDINALITY AS s(id, tenant, key, at)
    LEFT JOIN unnest(v_ids, v_tenants) AS f(id, tenant) ON f.id = s.id AND f.tenant = s.tenant
    CROSS JOIN LATERAL (SELECT coalesce(
      (SELECT l.state FROM jobs.live l WHERE l.id = s.id AND l.tenant = s.tenant),
      (SELECT d.state FROM jobs.done d WHERE d.id = s.id AND d.tenant = s.tenant)) AS state) x
    LEFT JOIN LATERAL (
      SELECT k.id, (SELECT l.state FROM jobs.live l WHERE l.id = k.id AND l.tenant = k.tenant) AS state
      FROM jobs.key k WHERE k.tenant = s.tenant AND k.key = s.key) y ON true
    WHERE f.id IS NULL;
END $$;

-- The same for a part of a push that failed as a whole: it waits for others' transactions no longer than
-- it takes to find out which job has to.
CREATE FUNCTION jobs.enqueue_briefly(
  ids uuid[], tenants text[], queues text[], names text[], actions text[], bys text[],
  payloads bytea[], priorities int2[], attempts int4[], timeouts int8[], keys text[], scopes int2[],
  metadatas text[], ats int8[], delays int8[], keyed bool
) RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET lock_timeout = '100ms'
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY SELECT * FROM jobs.enqueue(ids, tenants, queues, names, actions, bys, payloads, priorities,
    attempts, timeouts, keys, scopes, metadatas, ats, delays, keyed);
END $$;
