use jobs_core::{Grant, Job};

fn main() {
    let _ = Grant::reissue(&Job::default());
}
