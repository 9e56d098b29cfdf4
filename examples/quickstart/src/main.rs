//! Push and run a typed job on a SQLite file.

fn main() {}
