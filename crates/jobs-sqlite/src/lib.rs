//! Background jobs in a SQLite file: the embedded default.
