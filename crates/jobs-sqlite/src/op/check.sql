-- What health is judged by. Returns SQLite's version, the schema's, the clock's highest.
SELECT sqlite_version(), (SELECT max(version) FROM jobs_migration), (SELECT clock FROM jobs_meta)
