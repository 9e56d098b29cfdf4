-- Removes jobs and their history. Answers one row each: `code` 0 unknown, 1 deleted, 2 it runs under a
-- valid lease.
CREATE FUNCTION jobs.delete(p_scope text, p_tenants text[], p_ids uuid[])
RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := jobs.now_ms();
  v jobs.live;
  a jobs.answer;
BEGIN
  PERFORM jobs.lock_all(p_scope, p_tenants, p_ids);
  FOR i IN 1..cardinality(p_ids) LOOP
    a := NULL;
    a.part := 3;
    a.at := i;
    a.code := 1;
    -- Locked as it is read: it may have come back from history since all were locked.
    SELECT x.* INTO v FROM jobs.live x
    WHERE x.id = p_ids[i] AND x.tenant = p_tenants[i] AND (p_scope IS NULL OR x.tenant = p_scope)
    FOR UPDATE;
    IF FOUND THEN
      IF v.state = 2 AND v.lease_until > v_now AND v.lease_until <= v_now + 7200000 THEN
        a.code := 2;
      ELSE
        IF v.keyed > 0 THEN
          PERFORM jobs.free_keys(ARRAY[v.id], ARRAY[v.tenant]);
        END IF;
        DELETE FROM jobs.live x WHERE x.id = v.id AND x.tenant = v.tenant;
        PERFORM jobs.remove(ARRAY[v.id], ARRAY[v.tenant]);
      END IF;
    ELSE
      PERFORM 1 FROM jobs.done x
      WHERE x.id = p_ids[i] AND x.tenant = p_tenants[i] AND (p_scope IS NULL OR x.tenant = p_scope)
        AND NOT x.stub
      FOR UPDATE;
      IF FOUND THEN
        PERFORM jobs.remove(ARRAY[p_ids[i]], ARRAY[p_tenants[i]]);
      ELSE
        a.code := 0;
      END IF;
    END IF;
    RETURN NEXT a;
  END LOOP;
END $$;
