-- What the operators' verbs share.

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

-- One job in scope, locked where it is read: since all were locked it may have come back from history,
-- and been taken. `live` or `done` is null, both when there is no such job; stubs are none.
CREATE FUNCTION jobs.locked(p_scope text, p_tenant text, p_id uuid, OUT live jobs.live, OUT done jobs.done)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  IF p_tenant <> p_scope THEN
    RETURN;
  END IF;
  -- Twice, because it may change places between the two looks.
  FOR look IN 1..2 LOOP
    SELECT v.* INTO live FROM jobs.live v WHERE v.id = p_id AND v.tenant = p_tenant FOR UPDATE;
    IF FOUND THEN
      RETURN;
    END IF;
    SELECT d.* INTO done FROM jobs.done d
    WHERE d.id = p_id AND d.tenant = p_tenant AND NOT d.stub FOR UPDATE;
    IF FOUND THEN
      RETURN;
    END IF;
  END LOOP;
END $$;
