-- What health is judged by. Returns the server's version, the schema's, now, is it a standby, fsync,
-- synchronous_commit, the age in seconds of the oldest snapshot that others are seen to hold, autovacuum,
-- the age in seconds of the oldest prepared transaction, and how many transactions the oldest that a
-- replication slot keeps is behind. Without pg_read_all_stats, other roles' snapshots are not seen.
SELECT current_setting('server_version'), (SELECT max(m.version) FROM jobs.migration m), jobs.now_ms(),
  pg_is_in_recovery(), current_setting('fsync'), current_setting('synchronous_commit'),
  coalesce((SELECT max(extract(epoch FROM clock_timestamp() - a.xact_start))::int8
    FROM pg_stat_activity a
    WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid()
      AND a.datname = current_database()), 0),
  current_setting('autovacuum'),
  coalesce((SELECT max(extract(epoch FROM clock_timestamp() - p.prepared))::int8
    FROM pg_prepared_xacts p WHERE p.database = current_database()), 0),
  coalesce((SELECT max(age(s.xmin))::int8 FROM pg_replication_slots s), 0)
