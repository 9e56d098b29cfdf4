use jobs_core::{Grant, grant::Scope};

fn widen(grant: &Grant) -> Grant {
    let mut wider = grant.clone();
    wider.scope = Scope::Operator;
    wider
}

fn main() {}
