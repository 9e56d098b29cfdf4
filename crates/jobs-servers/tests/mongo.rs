//! A real replica set: writable when it has started, and with another primary when one is killed.

use std::process::ExitCode;

use jobs_servers::{PrivateMongo, drop_database};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let tests: [(&str, fn()); 3] = [
        ("a_set_has_a_primary_on_loopback", fresh),
        ("a_killed_primary_is_replaced_and_comes_back", killed),
        ("a_dropped_set_leaves_nothing", dropped),
    ];
    let missing = PrivateMongo::find().is_none();
    let skip = missing && std::env::var_os("JOBS_TEST_REQUIRE").is_none();
    if skip {
        eprintln!("skipped: there is no mongod");
    }
    let trials = tests.map(|(name, test)| {
        let test = move || {
            test();
            Ok::<(), Failed>(())
        };
        Trial::test(name, test).with_ignored_flag(skip)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn fresh() {
    let server = PrivateMongo::start().expect("it starts");
    assert_eq!(server.primary(), Ok(0));
    let port = server.ports()[0];
    assert_eq!(server.url(), format!("mongodb://127.0.0.1:{port}/?replicaSet=jobs"));
    // A write that waits for a majority.
    drop_database(&server.url(), "nobody").expect("it is writable");
    drop_database("mongodb://127.0.0.1:1/", "nobody").expect_err("nobody is there");
}

fn killed() {
    let mut server = PrivateMongo::start_three().expect("it starts");
    let first = server.primary().expect("a primary");
    server.kill(first).expect("it ran");
    let second = server.primary().expect("another");
    assert_ne!(first, second);
    server.kill(first).expect_err("it does not run");
    server.start_again(first).expect("it starts");
    drop_database(&server.url(), "nobody").expect("a majority is there");
}

fn dropped() {
    let server = PrivateMongo::start().expect("it starts");
    let folder = server.logs()[0].parent().expect("a folder").to_owned();
    assert!(folder.join("data").exists());
    let port = server.ports()[0];
    drop(server);
    assert!(!folder.exists());
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}
