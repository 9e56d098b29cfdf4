-- Extends the leases of claims that are held. Answers the place of each, and `code` 1 where an operator
-- wants its end.
CREATE FUNCTION jobs.renew(tenants text[], ids uuid[], fences int8[], nonces int8[], p_lease int8)
RETURNS TABLE (at int4, cancel bool) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := jobs.now_ms();
BEGIN
  RETURN QUERY
  WITH s AS MATERIALIZED (
    SELECT s.* FROM unnest(tenants, ids, fences, nonces) WITH ORDINALITY AS s(tenant, id, fence, nonce, at)
  ), h AS MATERIALIZED (
    SELECT v.id, v.tenant, v.cancel, s.at FROM s
    JOIN jobs.live v ON v.id = s.id AND v.tenant = s.tenant
    WHERE v.state + 0 = 2 AND v.fence = s.fence AND v.nonce = s.nonce AND v.nonce <> 0
    ORDER BY v.id, v.tenant FOR UPDATE OF v
  ), u AS (
    UPDATE jobs.live v SET renewed_at = v_now, lease_until = v_now + p_lease
    FROM h WHERE v.id = h.id AND v.tenant = h.tenant
  )
  SELECT h.at::int4, h.cancel FROM h;
END $$;
