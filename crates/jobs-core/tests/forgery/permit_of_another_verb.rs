use jobs_core::{Permit, permit};

fn delete(_: &Permit<permit::Delete>) {}

fn look(permit: &Permit<permit::Read>) {
    delete(permit);
}

fn main() {}
