use jobs_core::Grant;

fn rename(grant: &Grant) -> Grant {
    Grant { action: "jobs.delete".to_owned(), ..grant.clone() }
}

fn main() {}
