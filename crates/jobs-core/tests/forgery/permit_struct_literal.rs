use jobs_core::{Permit, permit::Delete};

fn main() {
    let _: Permit<Delete> =
        Permit { tenant: None, by: "mallory".to_owned(), verb: std::marker::PhantomData };
}
