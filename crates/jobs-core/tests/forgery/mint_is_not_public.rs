use jobs_core::{Grant, grant::Scope};

fn main() {
    let _ = Grant::mint("mallory", "invoice.send", Scope::Operator);
}
