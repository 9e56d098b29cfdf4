-- Takes ended jobs out of the live ones. ?1 [[job, …], …].
DELETE FROM jobs_live WHERE job IN (SELECT value ->> 0 FROM json_each(?1))
