-- The driver's own table of migrations, beside the application's.
CREATE TABLE IF NOT EXISTS jobs_migration (
  version INTEGER PRIMARY KEY,
  applied_at INTEGER NOT NULL
) STRICT
