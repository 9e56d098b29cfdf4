-- Puts parked and cancelled jobs back in line, due now, one after the other. Answers one row each:
-- `code` 0 unknown, 1 retried (with its line), 2 not in that `state`, 3 its key is held by `id` in
-- `state`.
CREATE FUNCTION jobs.retry(p_scope text, p_by text, p_tenants text[], p_ids uuid[])
RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := jobs.now_ms();
  v jobs.live;
  d jobs.done;
  b jobs.body;
  a jobs.answer;
BEGIN
  PERFORM jobs.lock_all(p_scope, p_tenants, p_ids);
  FOR i IN 1..cardinality(p_ids) LOOP
    a := NULL;
    a.part := 3;
    a.at := i;
    a.code := 0;
    -- Locked as it is read: it may have come back from history since all were locked.
    SELECT x.* INTO v FROM jobs.live x
    WHERE x.id = p_ids[i] AND x.tenant = p_tenants[i] AND (p_scope IS NULL OR x.tenant = p_scope)
    FOR UPDATE;
    IF FOUND THEN
      a.code := 2;
      a.state := v.state;
      IF v.state = 3 THEN
        UPDATE jobs.live x SET state = 1, run_at = v_now, attempt = 0, verb = 'retry', verb_by = p_by,
          verb_at = v_now WHERE x.id = v.id AND x.tenant = v.tenant;
        a.code := 1;
      END IF;
    ELSE
      SELECT x.* INTO d FROM jobs.done x
      WHERE x.id = p_ids[i] AND x.tenant = p_tenants[i] AND (p_scope IS NULL OR x.tenant = p_scope)
        AND NOT x.stub
      FOR UPDATE;
      IF FOUND THEN
        a.code := 2;
        a.state := d.state;
        IF d.state = 5 THEN
          SELECT x.* INTO b FROM jobs.body x WHERE x.id = d.id AND x.tenant = d.tenant;
          a.code := 1;
          IF b.key IS NOT NULL AND b.key_scope = 1 THEN
            INSERT INTO jobs.key (tenant, key, id) VALUES (b.tenant, b.key, b.id)
            ON CONFLICT (tenant, key) DO NOTHING;
            IF NOT FOUND THEN
              a.code := 3;
              SELECT k.id, x.state INTO a.id, a.state FROM jobs.key k
              JOIN jobs.live x ON x.id = k.id AND x.tenant = k.tenant
              WHERE k.tenant = b.tenant AND k.key = b.key;
              IF NOT FOUND THEN
                a.code := 4;
              END IF;
            END IF;
          END IF;
          IF a.code = 1 THEN
            DELETE FROM jobs.done x WHERE x.id = d.id AND x.tenant = d.tenant;
            INSERT INTO jobs.live (id, tenant, queue, name, suspect, state, rank, run_at, attempt,
              max_attempts, keyed, fence, nonce, outcome, snoozes, releases, verb, verb_by, verb_at)
            VALUES (d.id, d.tenant, d.queue, b.name, d.suspect, 1, -b.priority, v_now, 0,
              b.max_attempts, CASE WHEN b.key_scope = 1 THEN 1 ELSE 0 END, d.fence, d.nonce, d.outcome,
              d.snoozes, d.releases, 'retry', p_by, v_now);
          END IF;
        END IF;
      END IF;
    END IF;
    IF a.code = 1 THEN
      SELECT x.queue, x.tenant, x.id, x.name, x.suspect, x.rank, x.run_at
      INTO a.queue, a.tenant, a.id, a.name, a.suspect, a.rank, a.run_at FROM jobs.live x
      WHERE x.id = p_ids[i] AND x.tenant = p_tenants[i];
    END IF;
    RETURN NEXT a;
  END LOOP;
END $$;

-- Locks the jobs in scope in the order of identity, whatever order they are asked in.
CREATE FUNCTION jobs.lock_all(p_scope text, p_tenants text[], p_ids uuid[])
RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  PERFORM 1 FROM unnest(p_ids, p_tenants) AS n(id, tenant)
  JOIN jobs.live v ON v.id = n.id AND v.tenant = n.tenant
  WHERE p_scope IS NULL OR v.tenant = p_scope
  ORDER BY v.id, v.tenant FOR UPDATE OF v;
  PERFORM 1 FROM unnest(p_ids, p_tenants) AS n(id, tenant)
  JOIN jobs.done d ON d.id = n.id AND d.tenant = n.tenant
  WHERE p_scope IS NULL OR d.tenant = p_scope
  ORDER BY d.id, d.tenant FOR UPDATE OF d;
END $$;
