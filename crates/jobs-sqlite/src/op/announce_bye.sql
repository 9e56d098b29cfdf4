-- A worker says goodbye. ?1 id.
DELETE FROM jobs_worker WHERE id = ?1
