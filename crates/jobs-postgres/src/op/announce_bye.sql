-- A worker says goodbye. $1 id.
DELETE FROM jobs.worker WHERE id = $1
