-- The server's time.
return NOW
