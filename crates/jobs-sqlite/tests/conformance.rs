//! The suite on SQLite.

fn main() {}
