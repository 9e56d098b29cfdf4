-- Forgets the minutes of more than an hour ago. ?1 the oldest that stays.
DELETE FROM jobs_minute WHERE at < ?1
