-- Counts what ended in this minute. ?1 [[lane, finished, failed], …], ?2 the minute's start.
INSERT INTO jobs_minute (at, lane, finished, failed)
SELECT ?2, n.value ->> 0, n.value ->> 1, n.value ->> 2 FROM json_each(?1) n WHERE true
ON CONFLICT (at, lane) DO UPDATE
SET finished = finished + excluded.finished, failed = failed + excluded.failed
