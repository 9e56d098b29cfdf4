//! What becomes of jobs whose worker is told to stop, or killed.

use crate::{
    mail::{Mail, Service},
    place::Place,
    process::Process,
};

/// One worker drains, the next is killed over a job, a third one runs that again: with the same key,
/// once the lease of a second is over.
pub fn drain_and_recover(place: &Place) {
    place.migrate();
    let (mail, server) = (Service::start(), Process::serve(place));
    let worker = |slots| {
        let words = format!("--lease 1s --concurrency {slots}");
        Process::worker(place, &words, &mail.address)
    };
    let issued = [1, 2, 3].map(|cents| server.issue("ada", "acme", cents));

    let draining = worker(1);
    let first = mail.next();
    draining.signal("TERM");
    // Its handler still waits for an answer, which it gets only now.
    let mut keys = vec![first.key.clone()];
    first.take();
    let (status, said) = draining.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("worker: told to stop, and drained: 1 run settled"), "{said}");
    server.until_sent("ada", "acme", 3, 1);

    let killed = worker(1);
    let cut = mail.next();
    assert_eq!(cut.process, killed.id());
    killed.signal("KILL");
    let (status, _) = killed.end();
    assert_eq!(status, None, "by the signal");

    let last = worker(2);
    let rest = [mail.next(), mail.next()];
    let again = rest.iter().filter(|mail| mail.key == cut.key).count();
    assert_eq!(again, 1, "the killed worker's job runs again");
    assert!(rest.iter().all(|mail| mail.process == last.id()));
    keys.extend(rest.iter().map(|mail| mail.key.clone()));
    rest.into_iter().for_each(Mail::take);
    server.until_sent("ada", "acme", 3, 3);
    last.stop();
    keys.sort();
    let mut expected = issued.map(|id| format!("acme/{id}")).to_vec();
    expected.sort();
    assert_eq!(keys, expected, "each was mailed once");

    let id = cut.key.trim_start_matches("acme/");
    let job = place.json(&format!("jobs show --tenant acme {id}"));
    let attempts = job["attempts"].as_array().expect("attempts").iter();
    let attempts: Vec<_> = attempts.map(|attempt| attempt["outcome"].as_str()).collect();
    assert_eq!(attempts, [Some("lost"), Some("done")], "{job}");
    server.stop();
}
