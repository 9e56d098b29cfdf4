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
  f record;
  v jobs.live;
  a jobs.answer;
BEGIN
  PERFORM jobs.lock_all(p_scope, p_tenants, p_ids);
  FOR i IN 1..cardinality(p_ids) LOOP
    a := NULL;
    a.part := 3;
    a.at := i;
    a.code := 1;
    SELECT * INTO f FROM jobs.locked(p_scope, p_tenants[i], p_ids[i]);
    v := f.live;
    IF v.id IS NOT NULL THEN
      IF v.state = 2 AND jobs.is_held(v.lease_until, v.renewed_at, v_now) THEN
        a.code := 2;
      ELSE
        IF v.keyed > 0 THEN
          PERFORM jobs.free_keys(ARRAY[v.id], ARRAY[v.tenant]);
        END IF;
        DELETE FROM jobs.live x WHERE x.id = v.id AND x.tenant = v.tenant;
        PERFORM jobs.remove(ARRAY[v.id], ARRAY[v.tenant]);
      END IF;
    ELSIF (f.done).id IS NOT NULL THEN
      PERFORM jobs.remove(ARRAY[p_ids[i]], ARRAY[p_tenants[i]]);
    ELSE
      a.code := 0;
    END IF;
    RETURN NEXT a;
  END LOOP;
END $$;
