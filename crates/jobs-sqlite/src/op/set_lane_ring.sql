-- Takes a lane out of the ring, or puts it back. ?1 lane, ?2 the ring's new number.
UPDATE jobs_sublane SET ring = ?2 WHERE lane = ?1 AND (ring = 2) <> (?2 = 2)
