-- Charges visits: new rows with a greater finish, and the versions before them go.
CREATE FUNCTION jobs.charge(
  p_queue text, p_tenants text[], p_visited bool[], p_names text[], p_before int8[], p_nows int8[],
  p_finish int8[], p_at int8[]
) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  WITH c AS MATERIALIZED (
    SELECT a.tenant, b.name, p_finish[(a.at - 1) * cardinality(p_names) + b.at] AS finish,
      p_at[(a.at - 1) * cardinality(p_names) + b.at] AS visited
    FROM unnest(p_tenants, p_visited) WITH ORDINALITY AS a(tenant, was, at)
    CROSS JOIN unnest(p_names) WITH ORDINALITY AS b(name, at)
    WHERE a.was
    UNION ALL
    SELECT '', b.name, b.now, 0
    FROM unnest(p_names, p_nows, p_before) AS b(name, now, before)
    WHERE b.now > b.before
  ), i AS (
    INSERT INTO jobs.turn (queue, name, tenant, finish, visited)
    SELECT p_queue, c.name, c.tenant, c.finish, c.visited FROM c
    ON CONFLICT DO NOTHING
  )
  DELETE FROM jobs.turn u USING (
    SELECT x.ctid AS at FROM c CROSS JOIN LATERAL (
      SELECT o.ctid FROM jobs.turn o
      WHERE o.queue = p_queue AND o.name = c.name AND o.tenant = c.tenant AND o.finish < c.finish
      ORDER BY o.finish DESC LIMIT 1) x) d
  WHERE u.ctid = d.at;
END $$;
