-- Where this file keeps the planner's statistics, if ANALYZE ever ran.
SELECT name FROM sqlite_schema WHERE name IN ('sqlite_stat1', 'sqlite_stat4')
