-- What is held under a nonce, in the order asked. `state + 0` keeps the plan to the key: planned on an
-- empty table, the index of running jobs looks as good, and each look-up then reads all of it.
CREATE FUNCTION jobs.deliver(p_ids uuid[], p_tenants text[], p_nonce int8)
RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT 1::int2, NULL::int4, NULL::int2, NULL::int2, v.queue, v.tenant, v.id, v.name, v.suspect,
      v.rank, v.run_at, v.fence, v.attempt, b.action, b.authorized_by, b.payload, b.max_attempts,
      b.timeout, b.key, b.key_scope, b.metadata
    FROM unnest(p_ids, p_tenants) WITH ORDINALITY AS s(id, tenant, at)
    JOIN jobs.live v ON v.id = s.id AND v.tenant = s.tenant AND v.state + 0 = 2 AND v.nonce = p_nonce
    JOIN jobs.body b ON b.id = v.id AND b.tenant = v.tenant
    ORDER BY s.at;
END $$;

-- Settles, then reserves.
CREATE FUNCTION jobs.exchange(
  tenants text[], ids uuid[], fences int8[], nonces int8[], kinds int2[], delays int8[], causes text[],
  p_queue text, p_names text[], p_quick text[], p_slots int4, p_most int4, p_lease int8,
  p_nonce int8, p_worker text, p_look bool, p_since int8, p_more bool,
  line_names text[], line_suspects bool[], line_tenants text[], line_ranks int2[], line_dues int8[],
  line_ids uuid[]
) RETURNS SETOF jobs.answer LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN QUERY SELECT * FROM jobs.settle(tenants, ids, fences, nonces, kinds, delays, causes);
  RETURN QUERY SELECT * FROM jobs.reserve(p_queue, p_names, p_quick, p_slots, p_most, p_lease, p_nonce,
    p_worker, p_look, p_since, p_more, line_names, line_suspects, line_tenants, line_ranks, line_dues, line_ids);
END $$;
