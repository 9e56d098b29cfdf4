-- Ends jobs without their work, one after the other. Answers one row each: `code` 0 unknown, 1
-- cancelled, 2 its holder is asked, 3 not live but in `state`.
CREATE FUNCTION jobs.cancel(p_scope text, p_by text, p_tenants text[], p_ids uuid[])
RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := jobs.now_ms();
  f record;
  v jobs.live;
  a jobs.answer;
BEGIN
  PERFORM jobs.lock_all(p_scope, p_tenants, p_ids);
  FOR i IN 1..cardinality(p_ids) LOOP
    a := NULL;
    a.part := 3;
    a.at := i;
    a.code := 0;
    SELECT * INTO f FROM jobs.locked(p_scope, p_tenants[i], p_ids[i]);
    v := f.live;
    IF v.id IS NULL THEN
      IF (f.done).id IS NOT NULL THEN
        a.code := 3;
        a.state := (f.done).state;
      END IF;
    ELSIF v.state = 2 AND jobs.is_held(v.lease_until, v.renewed_at, v_now) THEN
      UPDATE jobs.live x SET cancel = true, verb = 'cancel', verb_by = p_by, verb_at = v_now
      WHERE x.id = v.id AND x.tenant = v.tenant;
      a.code := 2;
    ELSE
      IF v.state = 2 THEN
        INSERT INTO jobs.attempt (id, tenant, fence, number, worker, started_at, ended_at, outcome, cause)
        VALUES (v.id, v.tenant, v.fence, v.attempt, coalesce(v.worker, ''),
          coalesce(v.started_at, v_now), v_now, 6, 'the lease ran out without a renewal')
        ON CONFLICT DO NOTHING;
        INSERT INTO jobs.minute (at, queue, tenant, finished, failed)
        VALUES (v_now - v_now % 60000, v.queue, v.tenant, 0, 1);
        IF v.fence > 100 THEN
          PERFORM jobs.trim_attempts(ARRAY[v.id], ARRAY[v.tenant]);
        END IF;
      END IF;
      DELETE FROM jobs.live x WHERE x.id = v.id AND x.tenant = v.tenant;
      INSERT INTO jobs.done (id, tenant, queue, state, run_at, ended_at, attempt, fence, nonce, outcome,
        started_at, worker, snoozes, releases, verb, verb_by, verb_at, suspect)
      VALUES (v.id, v.tenant, v.queue, 5, v.run_at, v_now, v.attempt, v.fence + 1, 0, NULL, NULL, NULL,
        v.snoozes, v.releases, 'cancel', p_by, v_now, v.suspect OR v.state = 2);
      IF v.keyed > 0 THEN
        PERFORM jobs.free_keys(ARRAY[v.id], ARRAY[v.tenant]);
      END IF;
      a.code := 1;
    END IF;
    RETURN NEXT a;
  END LOOP;
END $$;
