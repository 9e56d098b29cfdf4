-- Which version the schema is of; 0 before the first migration.
SELECT coalesce(max(version), 0) FROM jobs_migration
